"""A place for one worker at a time, and what that worker has in hand."""

from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any

from pipelines.dispatch.work import Ref, Unit


class SlotState(StrEnum):
    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    UPDATING = "updating"
    RETIRED = "retired"


@dataclass(slots=True)
class Held:
    """A unit with a worker; `began` is when the worker could start on it, None for what is only at hand."""

    unit: Unit
    began: float | None = None


@dataclass
class Slot:
    """A place for one worker at a time; `deaths` counts those lost in a row without finished work."""

    index: int
    state: SlotState = SlotState.WAITING
    worker: Any = None
    name: str = ""
    incarnation: int = 0
    deaths: int = 0
    since: float = 0.0
    """When it entered its state; for WAITING, when it may start again."""
    held: dict[Ref, Held] = field(default_factory=dict)
    """In the order in which they were handed out."""
    suspects: int = 0
    """Of those that it holds, units over which several workers died."""
    load_ref: Ref | None = None
    progress_ref: Ref | None = None
    progress_asked: float = 0.0
    last_progress: float = 0.0
    outdated: bool = False
    """It holds other weights than the pool's, and takes no unit before it has those."""
    update_ref: Ref | None = None
    leaving: bool = False
    """Its node is being emptied: it finishes what it holds and takes no more."""

    @property
    def units(self) -> list[Unit]:
        return [held.unit for held in self.held.values()]

    @property
    def refs(self) -> list[Ref]:
        """All that its worker was asked and has not answered."""
        others = (self.load_ref, self.progress_ref, self.update_ref)
        return [*self.held, *(ref for ref in others if ref is not None)]

    @property
    def takes_units(self) -> bool:
        return self.state is SlotState.READY and not self.outdated and not self.leaving

    def begin(self, concurrency: int, now: float) -> None:
        """The worker is at its first `concurrency` units."""
        for held in islice(self.held.values(), concurrency):
            if held.began is None:
                held.began = now
