"""One problem with its right answer."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """`level` runs from 1 (easy) to 5 (hard), as in MATH; None where the source has none."""

    id: str
    problem: str
    answer: str
    subject: str | None = None
    level: int | None = None
    solution: str | None = None
