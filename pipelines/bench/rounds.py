"""Runs the sides of a trial in turn, so that a machine that gets slower or faster does so for all of them."""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
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


def measure(trial: Trial, rounds: int, timeout_s: float, console: Console) -> RowResult:
    """Every side once a round, each round in the opposite order of the one before. A failure ends the trial."""
    result = RowResult(trial)
    if trial.missing:
        console.warn(f"{trial.name} is not measured: {trial.missing}")
        return result
    result.runs = {entrant.label: [] for entrant in trial.entrants}
    with tempfile.TemporaryDirectory(prefix="mathlete-bench-") as folder:
        specs = {
            entrant.label: _write(Path(folder) / f"{place}.json", entrant.spec)
            for place, entrant in enumerate(trial.entrants)
        }
        for number in range(rounds):
            for entrant in in_turn(trial.entrants, number):
                try:
                    run = entrant.read(run_child(entrant.command(specs[entrant.label]), timeout_s))
                except ChildError as error:
                    result.failed = f"{entrant.label}, round {number + 1}: {error}"
                    console.fail(f"{trial.name}: {result.failed}")
                    return result
                result.runs[entrant.label].append(run)
                console.say(f"{trial.name}, round {number + 1} of {rounds}: {entrant.label}: {run}")
    result.findings = trial.judge([result.runs[entrant.label] for entrant in trial.entrants])
    return result


def in_turn(entrants: Sequence[Entrant], number: int) -> Sequence[Entrant]:
    """The order of round `number`: A B, B A, A B, …"""
    return entrants if number % 2 == 0 else entrants[::-1]


def _write(path: Path, spec: Mapping[str, Any]) -> Path:
    path.write_text(json.dumps(spec))
    return path
