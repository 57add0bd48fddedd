"""What is handed out, and what comes of it."""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

Ref = Hashable
"""A result to come."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of work that one worker does in one call.

    `losses` counts workers that died while they were at it, perhaps at others too; `failures` the times that the work
    itself raised.
    """

    id: str
    items: tuple[Any, ...]
    losses: int = 0
    failures: int = 0
    context: Any = None
    """What the call needs beside its items, the same for all of them."""

    @property
    def attempt(self) -> int:
        return 1 + self.losses + self.failures

    def split(self) -> "list[Unit]":
        """One unit an item, so that a single bad item cannot spoil its neighbours again."""
        return [replace(self, id=f"{self.id}.{number}", items=(item,)) for number, item in enumerate(self.items)]


@dataclass(frozen=True, slots=True)
class Finished:
    """A worker did its unit. `seconds` run from the moment the worker could start on it, being at others or not."""

    pool: str
    unit: Unit
    result: Any
    worker: str
    seconds: float


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The unit used up its attempts; its items are to be recorded as errors."""

    pool: str
    unit: Unit
    reason: str


@dataclass(frozen=True, slots=True)
class Incident:
    """Something about a worker that an operator wants to know."""

    pool: str
    kind: str
    worker: str
    text: str
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tick:
    """A moment passed; nothing need have happened."""


Event = Finished | GivenUp | Incident | Tick


class FatalError(Exception):
    """The run cannot go on; the text says why and what to do."""
