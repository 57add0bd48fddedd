"""A key-value pool whose entries say what they are, for a scheduler that is driven without a model."""

import random
from collections.abc import Callable

from actors.engine.continuous.scheduler import Copy, Plan, Scheduler
from actors.engine.continuous.sequence import Sequence


class SymbolicPool:
    """Runs plans as an engine would and checks that each token sees exactly the context it should."""

    def __init__(self, scheduler: Scheduler, clock: Callable[[], float] | None = None) -> None:
        self.scheduler = scheduler
        self.content: dict[int, object] = {}
        self.finished: dict[int, int] = {}
        self.too_large: list[int] = []
        self.tokens_run = 0
        self.rows: list[int] = []

    def step(self, ends: Callable[[Sequence], bool]) -> Plan:
        scheduler = self.scheduler
        plan = scheduler.plan()
        scheduler.check()
        self.too_large += [sequence.ticket for sequence in plan.too_large]
        self._copy(plan.copies)
        self._forget_free()
        for piece in plan.pieces:
            for position in range(piece.first, piece.first + piece.count):
                self.content[piece.sequence.place(position)] = _entry(piece.sequence, position)
        for piece in plan.pieces:
            for position in range(piece.first + piece.count):
                assert self.content.get(piece.sequence.place(position)) == _entry(piece.sequence, position)
        self.tokens_run += sum(piece.count for piece in plan.pieces)
        self.rows.append(len(scheduler.live))
        scheduler.computed(plan)
        drawn = []
        for piece in plan.pieces:
            if piece.samples:
                drawn += [piece.sequence, *piece.sequence.followers]
                self._copy(scheduler.followers_start(piece.sequence))
        for sequence in drawn:
            scheduler.sampled(sequence)
        over = [each for each in drawn if each.generated == each.budget or ends(each)]
        self.finished |= {each.ticket: each.generated for each in over}
        scheduler.finish(over)
        scheduler.check()
        return plan

    def _copy(self, copies: list[Copy]) -> None:
        for copy in copies:
            moved = {copy.target + n: self.content.get(copy.source + n) for n in range(copy.tokens)}
            self.content |= moved

    def _forget_free(self) -> None:
        for start, size in self.scheduler.runs.gaps:
            for token in range(start, start + size):
                self.content.pop(token, None)


def ends_at_random(seed: int, share: float) -> Callable[[Sequence], bool]:
    generator = random.Random(seed)
    return lambda sequence: generator.random() < share


def _entry(sequence: Sequence, position: int) -> object:
    if position < sequence.prompt_length:
        return ("prompt", sequence.prompt, position)
    return ("completion", sequence.ticket, position)
