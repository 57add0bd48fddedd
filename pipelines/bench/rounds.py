"""Runs the sides of a row in turn, so that a machine that gets slower or faster does so for all of them."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.bench.child import ChildError, run_child
from pipelines.bench.contenders import Setup
from pipelines.bench.findings import Finding
from pipelines.bench.measurement import Measurement
from pipelines.bench.rows import Row, Side
from pipelines.bench.work import Supply
from pipelines.problems import PromptError
from pipelines.records.console import Console


@dataclass(slots=True)
class RowResult:
    """A row as far as it came: `findings` if all of it was measured, else what is `missing` or which child `failed`."""

    row: Row
    less: str = ""
    """In which way the work was less than the row's."""
    findings: list[Finding] = field(default_factory=list)
    runs: dict[str, list[Measurement]] = field(default_factory=dict)
    missing: str | None = None
    failed: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.row.name,
            "compares": self.row.compares,
            "less_than_the_row": self.less,
            "missing": self.missing,
            "failed": self.failed,
            "findings": [finding.as_json() for finding in self.findings],
            "runs": {label: [run.as_json() for run in runs] for label, runs in self.runs.items()},
        }


def measure_row(row: Row, supply: Supply, setup: Setup, rounds: int, console: Console) -> RowResult:
    """Every side once a round, each round in the opposite order of the one before. A failure ends the row."""
    result = RowResult(row)
    try:
        works = {side.label: side.make(supply) for side in row.sides}
    except PromptError as error:
        result.missing = str(error)
    else:
        result.less = "; ".join(dict.fromkeys(each.less for each in works.values() if each.less))
        result.missing = next((why for side in row.sides if (why := setup.missing(side.contender))), None)
    if result.missing:
        console.warn(f"{row.name} is not measured: {result.missing}")
        return result
    result.runs = {side.label: [] for side in row.sides}
    with tempfile.TemporaryDirectory(prefix="mathlete-bench-") as folder:
        specs = {
            side.label: _write(Path(folder) / f"{place}.json", setup.spec(side.contender, works[side.label]))
            for place, side in enumerate(row.sides)
        }
        for number in range(rounds):
            for side in in_turn(row.sides, number):
                try:
                    run = Measurement.read(run_child(setup.command(side.contender, specs[side.label]), setup.timeout_s))
                except ChildError as error:
                    result.failed = f"{side.label}, round {number + 1}: {error}"
                    console.fail(f"{row.name}: {result.failed}")
                    return result
                result.runs[side.label].append(run)
                console.say(
                    f"{row.name}, round {number + 1} of {rounds}: {side.label}: {run.useful_tokens} tokens in "
                    f"{run.seconds:.3g} s, {run.tokens_per_s:.4g} tokens/s"
                )
    result.findings = row.judge([result.runs[side.label] for side in row.sides])
    return result


def in_turn(sides: Sequence[Side], number: int) -> Sequence[Side]:
    """The order of round `number`: A B, B A, A B, …"""
    return sides if number % 2 == 0 else sides[::-1]


def _write(path: Path, spec: dict[str, Any]) -> Path:
    path.write_text(json.dumps(spec))
    return path
