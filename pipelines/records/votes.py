"""The votes of a run: which answers of a problem are equivalent. Found once, then read from the run folder."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pipelines.records.journal import FAULTS, Sample

Ballot = tuple[str | None, ...]
"""A problem's answers by sample index; None for a sample that does not vote."""


@dataclass(frozen=True, slots=True)
class Vote:
    """`classes` holds the sample indices of answers that belong together.

    `by` tells how they were compared: `equivalence`, or `text` where that took too long.
    """

    problem_id: str
    ballot: Ballot
    classes: tuple[tuple[int, ...], ...]
    by: Literal["equivalence", "text"]

    def __post_init__(self) -> None:
        """Lists become tuples: that is how a journal has them."""
        object.__setattr__(self, "ballot", tuple(self.ballot))
        object.__setattr__(self, "classes", tuple(map(tuple, self.classes)))

    @property
    def key(self) -> tuple[str, Ballot]:
        """With the ballot: other answers, or more of them, need another vote."""
        return (self.problem_id, self.ballot)


def ballots(samples: Iterable[Sample]) -> dict[str, Ballot]:
    """By problem, what its samples vote for: a sample votes unless it has no answer, or a fault as its verdict."""
    answers: dict[str, dict[int, str | None]] = defaultdict(dict)
    for sample in samples:
        known = sample.verdict not in FAULTS
        answers[sample.problem_id][sample.sample_index] = sample.answer if known else None
    return {name: tuple(found[index] for index in sorted(found)) for name, found in answers.items()}
