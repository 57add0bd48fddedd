"""Runs the sides of a trial in turn, so that a machine that gets slower or faster does so for all of them."""

import contextlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pipelines.bench.child import ChildError, run_child
from pipelines.bench.findings import Finding
from pipelines.terminal.console import Console


class Run(Protocol):
    """What one run of a side gave; its text is for the progress."""

    def as_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Entrant:
    """A side that is ready to run: `command` starts the child that reads `spec` from the file that it is given."""

    label: str
    spec: Mapping[str, Any]
    command: Callable[[Path], Sequence[str]]
    read: Callable[[Mapping[str, Any]], Run]
    """What the child printed, as a run."""
    vary: Callable[[int], Mapping[str, Any]] = lambda number: {}
    """What is different in `spec` in each round."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A row of the table with its sides, ours first; `judge` takes their runs in that order."""

    name: str
    compares: str
    entrants: Sequence[Entrant] = ()
    judge: Callable[[Sequence[Any]], list[Finding]] = lambda runs: []
    less: str = ""
    """In which way the work is less than the row's."""
    missing: str | None = None
    """Why it cannot be run, with what to do."""


@dataclass(slots=True)
class RowResult:
    """A trial as far as it came: `findings` if all of it was measured, else which child `failed`."""

    trial: Trial
    findings: list[Finding] = field(default_factory=list)
    runs: dict[str, list[Run]] = field(default_factory=dict)
    failed: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.trial.name,
            "compares": self.trial.compares,
            "less_than_the_row": self.trial.less,
            "missing": self.trial.missing,
            "failed": self.failed,
            "findings": [finding.as_json() for finding in self.findings],
            "runs": {label: [run.as_json() for run in runs] for label, runs in self.runs.items()},
        }


def measure(trial: Trial, rounds: int, timeout_s: float, console: Console, budget_s: float | None = None) -> RowResult:
    """Every side once a round, each round in the opposite order of the one before. A failure ends the trial.

    With `budget_s`, rounds after the first are begun as long as they are expected to end within so many seconds.
    """
    result = RowResult(trial)
    if trial.missing:
        console.warn(f"{trial.name} is not measured: {trial.missing}")
        return result
    result.runs = {entrant.label: [] for entrant in trial.entrants}
    start = time.monotonic()
    for number in range(rounds):
        if number and budget_s is not None and (time.monotonic() - start) * (number + 1) / number > budget_s:
            break
        for entrant in in_turn(trial.entrants, number):
            try:
                with spec_file({**entrant.spec, **entrant.vary(number)}) as file:
                    run = entrant.read(run_child(entrant.command(file), timeout_s))
            except ChildError as error:
                result.failed = f"{entrant.label}, round {number + 1}: {error}"
                console.fail(f"{trial.name}: {result.failed}")
                return result
            result.runs[entrant.label].append(run)
            of = f" of {rounds}" if budget_s is None else ""
            console.say(f"{trial.name}, round {number + 1}{of}: {entrant.label}: {run}")
    result.findings = trial.judge([result.runs[entrant.label] for entrant in trial.entrants])
    return result


def in_turn(entrants: Sequence[Entrant], number: int) -> Sequence[Entrant]:
    """The order of round `number`: A B, B A, A B, …"""
    return entrants if number % 2 == 0 else entrants[::-1]


@contextlib.contextmanager
def spec_file(spec: Mapping[str, Any]) -> Iterator[Path]:
    """A file with `spec` for a child, for the length of the block."""
    with tempfile.TemporaryDirectory(prefix="mathlete-bench-") as folder:
        path = Path(folder) / "spec.json"
        path.write_text(json.dumps(spec))
        yield path
