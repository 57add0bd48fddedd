"""The lines of metrics.jsonl as points of curves."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

TRAINING_AXIS = "train/step"
"""Optimiser steps: of everything that a step measures."""
EVALUATION_AXIS = "eval/step"
"""Optimiser steps: of what an evaluation between two steps finds."""
PROGRESS_AXIS = "progress/done"
"""Graded samples: of everything in an evaluation job."""


@dataclass(frozen=True, slots=True)
class Point:
    """Values that were measured together. `step` counts along `axis`, `time` is in seconds since the epoch."""

    axis: str
    step: int
    time: float
    values: dict[str, float]


def points(row: Mapping[str, Any]) -> Iterator[Point]:
    """The points of a line: one, or two where a line has values of a step and of an evaluation."""
    values = {
        name: float(value)
        for name, value in row.items()
        if name not in ("step", "time", PROGRESS_AXIS) and isinstance(value, int | float)
    }
    if "step" not in row:
        yield Point(PROGRESS_AXIS, row[PROGRESS_AXIS], row["time"], values)
        return
    for axis in (TRAINING_AXIS, EVALUATION_AXIS):
        own = {name: value for name, value in values.items() if name.startswith("eval/") == (axis == EVALUATION_AXIS)}
        if own:
            yield Point(axis, row["step"], row["time"], own)


@dataclass
class Sent:
    """What a writer has already: the last step of each value by its name, and of all values of an axis.

    Each value goes out once a step, and its steps only rise, whatever is read again: a training run that goes back to a
    checkpoint measures some steps twice, and the first time counts.
    """

    names: dict[str, int] = field(default_factory=dict)
    axes: dict[str, int] = field(default_factory=dict)

    def news(self, point: Point) -> Point | None:
        """`point` with the values alone that are new, which count as sent from now on; None where nothing is."""
        if point.step <= self.axes.get(point.axis, -1):
            return None
        new = {name: value for name, value in point.values.items() if point.step > self.names.get(name, -1)}
        self.names |= dict.fromkeys(new, point.step)
        return replace(point, values=new) if new else None


class Tail:
    """A file of JSON lines that others append to, or replace whole; then it is read from the beginning again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = -1
        self._position = 0

    def new_rows(self) -> list[dict[str, Any]]:
        """The whole lines that came since the last call. A line that cannot be read is left out."""
        try:
            with self._path.open("rb") as file:
                found = os.fstat(file.fileno())
                if found.st_ino != self._inode or found.st_size < self._position:
                    self._inode, self._position = found.st_ino, 0
                file.seek(self._position)
                whole = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return []
        self._position += len(whole[0]) + len(whole[1])
        rows = []
        for line in whole[0].splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:
                continue
        return rows
