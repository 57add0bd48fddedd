"""How far a run is, as facts: the live view draws them, a log gets them in one line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Device:
    """A worker that is ready, and what it last said. None where it did not say."""

    name: str
    place: str
    live_rows: int | None = None
    waiting: int | None = None
    occupancy: float | None = None
    """Share of the places in its batch that were taken, over all its steps."""
    tokens_per_s: float | None = None
    """While it was at work."""


@dataclass(frozen=True, slots=True)
class Status:
    """`figures` are what a line has room for, `details` what only a view has; both ready to be read."""

    title: str
    done: int
    total: int
    unit: str
    phase: str = ""
    seconds_left: float | None = None
    figures: Sequence[str] = ()
    details: Sequence[str] = ()
    verdicts: Mapping[str, int] = field(default_factory=dict)
    curve: tuple[str, Sequence[float]] = ("", ())
    """Name and course of what matters most, the newest value last."""
    devices: Sequence[Device] = ()
    notes: Sequence[str] = ()

    def line(self) -> str:
        """Everything that fits into a line of a log."""
        parts = [f"{self.done}/{self.total} {self.unit}", *([self.phase] if self.phase else []), *self.figures]
        if self.seconds_left is not None:
            parts.append(f"about {duration(self.seconds_left)} left")
        return ", ".join([*parts, *self.notes])


def duration(seconds: float) -> str:
    """`42 s`, `5 min`, `3 h 20 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
