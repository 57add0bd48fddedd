"""Verdicts on answers against their peers: options, and rows made ready to run."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from pipelines.bench import children
from pipelines.bench.findings import Finding, compare
from pipelines.bench.machine import usable_cores, version_in
from pipelines.bench.part import Prepared, positive
from pipelines.bench.rounds import Entrant, Trial
from pipelines.config import ConfigError, EvalConfig
from pipelines.problems import DataSource, load_problems

INSTALL = "pip install 'math-verify[antlr4_13_2]'"


@dataclass(frozen=True, slots=True)
class Pair:
    """An answer, the gold answer, and whether they are `equal`; None for one that is there to do harm."""

    answer: str
    gold: str
    equal: bool | None

    @property
    def texts(self) -> list[str]:
        """The completion and the gold answer, for a child."""
        return [rf"The final answer is $\boxed{{{self.answer}}}$", self.gold]


@dataclass(frozen=True, slots=True)
class GradingRun:
    """What one run gave: `seconds` for all, the number of harmless `pairs`, and how many of their verdicts were right or
    which way they were wrong."""

    pairs: int
    seconds: float
    right: int
    false_positives: int
    false_negatives: int
    driver_cpu_s: float | None = None
    """CPU time of the process that handed out the pairs, where others did the work."""

    @classmethod
    def read(cls, pairs: Sequence[Pair], found: Mapping[str, Any]) -> "GradingRun":
        """From what a child printed: a verdict for each of `pairs`, in order."""
        said_and_true = zip(found["correct"], (pair.equal for pair in pairs), strict=True)
        verdicts = [(said, equal) for said, equal in said_and_true if equal is not None]
        return cls(
            len(verdicts),
            found["seconds"],
            right=sum(said == equal for said, equal in verdicts),
            false_positives=sum(said and not equal for said, equal in verdicts),
            false_negatives=sum(equal and not said for said, equal in verdicts),
            driver_cpu_s=found.get("driver_cpu_s"),
        )

    @property
    def pairs_per_s(self) -> float:
        return self.pairs / self.seconds

    @property
    def accuracy(self) -> str:
        return (
            f"{self.right / self.pairs:.1%} of {self.pairs} right, {self.false_positives} wrongly accepted, "
            f"{self.false_negatives} wrongly refused"
        )

    def __str__(self) -> str:
        return f"{self.pairs} pairs in {self.seconds:.3g} s, {self.pairs_per_s:.4g} pairs/s; {self.accuracy}"

    def as_json(self) -> dict[str, Any]:
        return {
            "pairs": self.pairs,
            "seconds": self.seconds,
            "pairs_per_s": self.pairs_per_s,
            "right": self.right,
            "false_positives": self.false_positives,
            "false_negatives": self.false_negatives,
            "driver_cpu_s": self.driver_cpu_s,
        }


@dataclass(frozen=True, slots=True)
class Supply:
    """What rows are made of. `cases` and `hostile` are None without a file of them."""

    golds: Sequence[str]
    cases: Sequence[Pair] | None
    hostile: Sequence[Pair] | None
    math_verify_python: Path | None
    math_verify: str | None
    passes: int


@dataclass(frozen=True, slots=True)
class Row:
    """`make` returns the trial, or one that says what is missing."""

    name: str
    compares: str
    make: Callable[["Row", Supply], Trial]
    optional: bool = False


def against_math_verify(row: Row, supply: Supply, pairs: Sequence[Pair] | None, target: float) -> Trial:
    """One pass over `pairs` in one process on one core, here and in Math-Verify."""
    if pairs is None:
        return Trial(row.name, row.compares, missing=_NO_CASES)
    if supply.math_verify is None:
        return Trial(row.name, row.compares, missing=_no_math_verify(supply.math_verify_python))
    spec = {"pairs": [pair.texts for pair in pairs]}
    read = partial(GradingRun.read, pairs)
    script = Path(children.__path__[0]) / "math_verify_grade.py"
    entrants = [
        Entrant("ours", spec, _ours("ours_grade"), read),
        Entrant("Math-Verify", spec, lambda file: [str(supply.math_verify_python), str(script), str(file)], read),
    ]
    labels = [entrant.label for entrant in entrants]
    return Trial(row.name, row.compares, entrants, partial(_speed, labels=labels, target=target))


def two_workers(row: Row, supply: Supply, target: float) -> Trial:
    """The cases through a pool of the pipeline's grading actors on Ray, `passes` times, each time spelled differently so
    that no verdict is remembered."""
    if supply.cases is None:
        return Trial(row.name, row.compares, missing=_NO_CASES)
    if usable_cores() < 2:
        return Trial(row.name, row.compares, missing="it takes two cores")
    pairs = respelled(supply.cases, supply.passes)
    entrants = [_pool("two workers", pairs, 2), _pool("one worker", pairs, 1)]
    labels = [entrant.label for entrant in entrants]
    return Trial(row.name, row.compares, entrants, partial(_speed, labels=labels, target=target))


def among_hostile(row: Row, supply: Supply, target: float) -> Trial:
    """The cases through one worker of the pool, with a hostile answer behind every ten of them and without."""
    if supply.cases is None or supply.hostile is None:
        return Trial(row.name, row.compares, missing=_NO_HOSTILE)
    pairs = respelled(supply.cases, supply.passes)
    harm = cycle(supply.hostile)
    mixed = [each for place, pair in enumerate(pairs, 1) for each in ([pair] if place % 10 else [pair, next(harm)])]
    entrants = [_pool("among hostile", mixed, 1), _pool("alone", pairs, 1)]
    labels = [entrant.label for entrant in entrants]
    return Trial(row.name, row.compares, entrants, partial(_speed, labels=labels, target=target))


def respelled(pairs: Sequence[Pair], passes: int) -> list[Pair]:
    """All pairs so many times, each time spelled differently, since verdicts are remembered."""
    return [Pair(pair.answer + "\\;" * number, pair.gold, pair.equal) for number in range(passes) for pair in pairs]


ROWS: Mapping[str, Row] = {
    row.name: row
    for row in (
        Row(
            "cases",
            "pairs of answer and gold answer from a file, spelled to be hard: ours against Math-Verify, one core",
            lambda row, supply: against_math_verify(row, supply, supply.cases, 10.0),
        ),
        Row(
            "golds",
            "gold answers against themselves: ours against Math-Verify, one core",
            lambda row, supply: against_math_verify(
                row, supply, [Pair(gold, gold, True) for gold in supply.golds], 20.0
            ),
        ),
        Row(
            "two-workers",
            "the same pairs in many spellings: a pool of two grading actors on Ray against a pool of one",
            lambda row, supply: two_workers(row, supply, 1.7),
        ),
        Row(
            "hostile",
            "the same pairs with a hostile answer behind every ten of them against the pairs alone: a pool of one",
            lambda row, supply: among_hostile(row, supply, 0.5),
        ),
    )
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Pairs, gold answers, and where the peer is."""
    parser.add_argument(
        "--cases",
        type=Path,
        metavar="FILE",
        help="JSONL with `pred`, `gold`, `equal` (whether they are) and, if you like, `disputed` (then it is left out)",
    )
    parser.add_argument(
        "--hostile", type=Path, metavar="FILE", help="JSONL with `pred` and `gold`, where `pred` is made to do harm"
    )
    parser.add_argument("--data", default=EvalConfig().data.source, help="as in `mathlete eval` (default MATH-500)")
    parser.add_argument("--passes", type=positive, default=60, metavar="N", help="pools: over all cases (default 60)")
    parser.add_argument("--math-verify-python", type=Path, metavar="PATH", help="interpreter that has math_verify")


def prepare(options: argparse.Namespace, names: Sequence[str]) -> Prepared:
    """The pairs, read once for all. Raises ConfigError and ProblemError."""
    cases = None if options.cases is None else read_pairs(options.cases)
    hostile = None if options.hostile is None else read_pairs(options.hostile, hostile=True)
    golds = [problem.answer for problem in load_problems(DataSource(options.data))] if "golds" in names else []
    version = version_in(options.math_verify_python, "math_verify", "math-verify")
    supply = Supply(golds, cases, hostile, options.math_verify_python, version, options.passes)
    return Prepared(
        [ROWS[name].make(ROWS[name], supply) for name in names],
        threads=1,
        peers={"math-verify": version},
        facts={"cases": options.cases and str(options.cases), "data": options.data, "passes": options.passes},
    )


def read_pairs(path: Path, *, hostile: bool = False) -> list[Pair]:
    """The undisputed pairs of a JSONL file. Raises ConfigError for a line that is no pair."""
    pairs = []
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                if not row.get("disputed"):
                    pairs.append(Pair(str(row["pred"]), str(row["gold"]), None if hostile else bool(row["equal"])))
            except (ValueError, KeyError, AttributeError) as error:
                wanted = "pred and gold" if hostile else "pred, gold and equal"
                raise ConfigError([f"{path}, line {number}: no object with {wanted}"]) from error
    if not pairs:
        raise ConfigError([f"{path}: no pairs"])
    return pairs


def _speed(runs: Sequence[Sequence[GradingRun]], labels: Sequence[str], target: float) -> list[Finding]:
    notes = tuple(f"{label}: {side[0].accuracy}" for label, side in zip(labels, runs, strict=True))
    ours, peer = ([run.pairs_per_s for run in side] for side in runs)
    return [compare("speed", "pairs/s", ours, peer, target, notes=notes)]


def _pool(label: str, pairs: Sequence[Pair], workers: int) -> Entrant:
    spec = {"pairs": [pair.texts for pair in pairs], "workers": workers}
    return Entrant(label, spec, _ours("ours_pool"), partial(GradingRun.read, pairs))


def _ours(script: str) -> Callable[[Path], list[str]]:
    return lambda file: [sys.executable, "-m", f"{children.__name__}.{script}", str(file)]


_NO_CASES = "it takes a file of pairs: --cases FILE"
_NO_HOSTILE = "it takes a file of pairs and one of hostile answers: --cases FILE --hostile FILE"


def _no_math_verify(python: Path | None) -> str:
    if python is not None:
        return f"no Math-Verify there: `{python} -m {INSTALL}`"
    return (
        f"Math-Verify lives in an environment of its own: `python -m venv mv && mv/bin/{INSTALL}`, then "
        "--math-verify-python mv/bin/python"
    )
