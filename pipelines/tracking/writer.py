"""What a tracking process writes to."""

from pathlib import Path
from typing import Protocol

from pipelines.tracking.order import Ending
from pipelines.tracking.points import Point


class TrackingError(Exception):
    """A writer cannot do its work; the text says why."""


class Writer(Protocol):
    """Takes every point of a run, from its beginning at each session: it knows what it has already.

    Methods may raise anything and may hang: whoever calls them is a process that can be killed.
    """

    label: str

    def begin(self) -> str: ...
    def begin_again(self) -> None: ...
    def log(self, point: Point) -> None: ...
    def log_checkpoint(self, path: Path) -> None: ...
    def finish(self, ending: Ending) -> None: ...
