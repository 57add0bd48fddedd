"""What a grading process may use."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MEMORY_EXIT = 77  # a child's exit code when it ran out of memory


@dataclass(frozen=True, slots=True)
class GradingLimits:
    """`deadline_s` is wall-clock time an item; `memory_mb` the child's address space; after `recycle_after` items, or
    once its memory has grown by half of `memory_mb`, the child is replaced."""

    deadline_s: float = 5.0
    memory_mb: int = 1024
    recycle_after: int = 10_000
    lenient: bool = True
    start_deadline_s: float = 120.0  # importing sympy on a busy machine

    def __post_init__(self) -> None:
        """Raises `ValueError` for limits under which nothing can be graded."""
        if self.deadline_s <= 0 or self.start_deadline_s <= 0:
            raise ValueError("deadline_s and start_deadline_s must be positive")
        if self.memory_mb < 256:
            raise ValueError("memory_mb must be at least 256: Python with sympy alone maps about 150")
        if self.recycle_after < 1:
            raise ValueError("recycle_after must be at least 1")


@dataclass(frozen=True, slots=True)
class GradingItem:
    """`problem` is what a reward function gets to know of the problem: names and values that JSON can carry."""

    completion: str
    gold: str
    problem: Mapping[str, Any] = field(default_factory=dict, hash=False)
