"""Which tokens of the key-value pool belong to whom: runs of neighbouring tokens, counted by their holders.

Plain integers; the pool itself lies in `pool.py`.
"""

from bisect import bisect, insort
from collections.abc import Iterable
from dataclasses import dataclass

BLOCK = 16
"""Runs start at, and are as long as, multiples of so many tokens."""


@dataclass(slots=True, eq=False)
class Run:
    """Tokens `start` to `start + size` of the pool."""

    start: int
    size: int
    holders: int = 1


class RunAllocator:
    """Hands out runs of a pool of `tokens`, the first gap that is large enough."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens // BLOCK * BLOCK
        self.free = self.tokens
        self.reached = 0
        """End of the last token that was ever handed out: as much of the pool is in memory where pages come on demand."""
        self._gaps = [(0, self.tokens)] if self.tokens else []

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """(start, size) of what is free, in order."""
        return list(self._gaps)

    def allocate(self, tokens: int) -> Run | None:
        """Return a run of at least `tokens`, and of one block, None if no gap is so large."""
        size = blocks(max(1, tokens))
        for index, (start, gap) in enumerate(self._gaps):
            if gap >= size:
                self._shrink(index, size)
                return Run(start, size)
        return None

    def extend(self, run: Run, tokens: int) -> bool:
        """Let `run` grow in place to at least `tokens`, if what lies behind it is free."""
        more = blocks(tokens) - run.size
        index = bisect(self._gaps, (run.start + run.size,))
        if index == len(self._gaps) or self._gaps[index][0] != run.start + run.size or self._gaps[index][1] < more:
            return False
        self._shrink(index, more)
        run.size += more
        return True

    def share(self, run: Run) -> Run:
        run.holders += 1
        return run

    def release(self, run: Run) -> bool:
        """Give up one hold; returns whether it was the last, and the tokens are free."""
        assert run.holders > 0, "released more often than held"
        run.holders -= 1
        if run.holders:
            return False
        start, end = run.start, run.start + run.size
        self.free += run.size
        index = bisect(self._gaps, (start,))
        if index < len(self._gaps) and self._gaps[index][0] == end:
            end += self._gaps.pop(index)[1]
        if index and sum(self._gaps[index - 1]) == start:
            start = self._gaps.pop(index - 1)[0]
        insort(self._gaps, (start, end - start))
        return True

    def check(self, live: Iterable[Run]) -> None:
        """Raise AssertionError unless `live` runs and gaps tile the pool, each token once, and holders are counted.

        `live` names a run once for every hold on it.
        """
        holds: dict[int, list[Run]] = {}
        for run in live:
            holds.setdefault(run.start, []).append(run)
        for same in holds.values():
            assert all(run is same[0] for run in same), "two runs start at the same token"
            assert same[0].holders == len(same), f"{same[0]} is held {len(same)} times"
        pieces = sorted([*self._gaps, *((same[0].start, same[0].size) for same in holds.values())])
        end = 0
        for start, size in pieces:
            assert start == end, f"tokens {end} to {start} are lost or in two runs"
            end = start + size
        assert end == self.tokens, f"tokens {end} to {self.tokens} are lost"
        assert self.free == sum(size for _, size in self._gaps)

    def _shrink(self, index: int, size: int) -> None:
        start, gap = self._gaps[index]
        self.free -= size
        self.reached = max(self.reached, start + size)
        if gap == size:
            del self._gaps[index]
        else:
            self._gaps[index] = (start + size, gap - size)


def blocks(tokens: int) -> int:
    """`tokens`, rounded up to whole blocks."""
    return -(-tokens // BLOCK) * BLOCK
