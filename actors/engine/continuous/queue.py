"""What waits: samples of one prompt side by side, prompts in the order that ends the work soonest."""

import heapq
from collections import deque
from collections.abc import Hashable, Iterator
from itertools import islice

from actors.engine.continuous.sequence import Sequence

HEADROOM = 64
"""Tokens that a completion which is not finished is expected to have before it at least."""


class LengthEstimate:
    """How long a completion may become: as its finished siblings did, else as all did, else to its limit."""

    def __init__(self) -> None:
        self._all = (0, 0)
        self._siblings: dict[Hashable, tuple[int, int]] = {}

    def learn(self, sequence: Sequence, has_siblings: bool) -> None:
        self._all = _added(self._all, sequence.generated)
        if has_siblings:
            self._siblings[sequence.prompt] = _added(self._siblings.get(sequence.prompt, (0, 0)), sequence.generated)

    def forget(self, prompt: Hashable) -> None:
        self._siblings.pop(prompt, None)

    def siblings(self, prompt: Hashable) -> float | None:
        total, count = self._siblings.get(prompt, (0, 0))
        return total / count if count else None

    def typical(self) -> float | None:
        total, count = self._all
        return total / count if count else None

    def of(self, sequence: Sequence) -> float:
        expected = self.siblings(sequence.prompt)
        expected = self.typical() if expected is None else expected
        if expected is None:
            return sequence.budget
        return min(sequence.budget, max(expected, sequence.generated + HEADROOM))


class WaitingQueue:
    """First those that lost their place; then whole groups, the longest expected first, else as they came."""

    def __init__(self, estimate: LengthEstimate) -> None:
        self._estimate = estimate
        self._returned: deque[Sequence] = deque()
        self._groups: dict[Hashable, deque[Sequence]] = {}
        self._unknown: dict[Hashable, None] = {}
        self._known: list[tuple[float, int, Hashable]] = []
        self._ranks = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Sequence]:
        yield from self._returned
        for group in self._groups.values():
            yield from group

    def add(self, sequence: Sequence) -> None:
        if sequence.prompt not in self._groups:
            self._groups[sequence.prompt] = deque()
            self._unknown[sequence.prompt] = None
        self._groups[sequence.prompt].append(sequence)
        self._size += 1

    def give_back(self, sequence: Sequence) -> None:
        """It goes on first when there is room again."""
        self._returned.appendleft(sequence)
        self._size += 1

    def samples_of(self, prompt: Hashable) -> int:
        return len(self._groups.get(prompt, ()))

    def rank(self, prompt: Hashable) -> None:
        """The expected length of this prompt's completions has changed."""
        expected = self._estimate.siblings(prompt)
        if prompt in self._groups and expected is not None:
            self._ranks += 1
            self._unknown.pop(prompt, None)
            heapq.heappush(self._known, (-expected, self._ranks, prompt))

    def next(self, most: int) -> list[Sequence]:
        """At most so many samples, all of the prompt whose turn it is. They stay in the queue."""
        if self._returned:
            return [self._returned[0]]
        while self._known and self._known[0][2] not in self._groups:
            heapq.heappop(self._known)
        longest = -self._known[0][0] if self._known else None
        if longest is not None and (not self._unknown or longest >= (self._estimate.typical() or 0)):
            return list(islice(self._groups[self._known[0][2]], most))
        return list(islice(self._groups[next(iter(self._unknown))], most)) if self._unknown else []

    @property
    def oldest_arrival(self) -> float:
        return min((group[0].arrived for group in (self._returned, *self._groups.values()) if group), default=0.0)

    def remove(self, sequence: Sequence) -> None:
        self._size -= 1
        group = self._groups.get(sequence.prompt)
        if sequence in self._returned or group is None:
            self._returned.remove(sequence)
            return
        group.remove(sequence)
        if not group:
            del self._groups[sequence.prompt]
            self._unknown.pop(sequence.prompt, None)


def _added(total_and_count: tuple[int, int], value: int) -> tuple[int, int]:
    return total_and_count[0] + value, total_and_count[1] + 1
