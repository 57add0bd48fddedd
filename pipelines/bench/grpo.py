"""Training steps against their peers: options, and rows made ready to run."""

import argparse
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from actors.models import resolve_model
from pipelines.bench import children
from pipelines.bench.findings import Finding, compare
from pipelines.bench.machine import usable_cores, version_in
from pipelines.bench.part import Prepared, positive
from pipelines.bench.rounds import Entrant, Trial

PROBLEMS = 8
GENERATIONS = 8
NEW_TOKENS = 64


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """What the steps of one run took: the medians, in seconds, and tokens."""

    seconds: float
    phases: Mapping[str, float]
    tokens: float

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> "TrainingRun":
        """From what a child printed."""
        steps = found["steps"]
        names = steps[0]["phases"]
        return cls(
            median(step["seconds"] for step in steps),
            {name: median(step["phases"][name] for step in steps) for name in names},
            median(step["tokens"] for step in steps),
        )

    @property
    def rollout_tokens_per_s(self) -> float:
        """Of generating alone."""
        return self.tokens / self.phases["generate"]

    def __str__(self) -> str:
        phases = "".join(f", {name} {seconds:.2f} s" for name, seconds in self.phases.items())
        return f"a step takes {self.seconds:.2f} s{phases}; {self.tokens:.0f} tokens"

    def as_json(self) -> dict[str, Any]:
        return {"seconds": self.seconds, "phases": dict(self.phases), "tokens": self.tokens}


@dataclass(frozen=True, slots=True)
class Steps:
    """What all sides do. Zero-variance groups are kept by ours, because TRL keeps them."""

    model: str
    folder: str
    """Where the model's files are."""
    steps: int
    threads: int
    trl_python: Path | None
    trl: str | None
    batch_size: int = PROBLEMS * GENERATIONS

    def spec(self) -> dict[str, Any]:
        """For a child."""
        return {
            "model": self.model,
            "folder": self.folder,
            "problems": sums(PROBLEMS * (self.steps + 1)),
            "problems_per_step": PROBLEMS,
            "num_generations": GENERATIONS,
            "max_new_tokens": NEW_TOKENS,
            "batch_size": self.batch_size,
            "steps": self.steps,
            "threads": self.threads,
        }


@dataclass(frozen=True, slots=True)
class Row:
    """`make` returns the trial, or one that says what is missing."""

    name: str
    compares: str
    make: Callable[["Row", Steps], Trial]
    optional: bool = False


def against_trl(row: Row, work: Steps) -> Trial:
    """Whole steps: generate, reward, update."""
    if work.trl is None:
        return Trial(row.name, row.compares, missing=_no_trl(work.trl_python))
    script = Path(children.__path__[0]) / "trl_grpo.py"
    trl = Entrant("TRL", work.spec(), lambda file: [str(work.trl_python), str(script), str(file)], TrainingRun.read)
    return Trial(row.name, row.compares, [_ours("ours", work), trl], _step_speed)


def one_by_one(row: Row, work: Steps) -> Trial:
    """The same rollouts in batches and one at a time."""
    single = _ours("ours, one by one", replace(work, batch_size=1))
    return Trial(row.name, row.compares, [_ours("ours", work), single], _rollout_speed)


_STEP = f"{PROBLEMS} problems x {GENERATIONS} completions of at most {NEW_TOKENS} tokens"

ROWS: Mapping[str, Row] = {
    row.name: row
    for row in (
        Row("step", f"a step of {_STEP}, one update: ours on Ray against TRL's GRPOTrainer", against_trl),
        Row("rollouts", f"the rollouts of a step of {_STEP}: ours batched against ours one by one", one_by_one),
    )
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Model, length of a run, and where the peer is."""
    parser.add_argument("--model", default="smollm2-135m", help="folder or built-in model (default smollm2-135m)")
    parser.add_argument("--steps", type=positive, default=3, metavar="N", help="steps of a run (default 3)")
    parser.add_argument("--threads", type=positive, default=usable_cores(), metavar="N", help="default: all cores")
    parser.add_argument("--trl-python", type=Path, metavar="PATH", help="interpreter that has trl")


def prepare(options: argparse.Namespace, names: Sequence[str]) -> Prepared:
    """What every child is told. Raises ModelError."""
    version = version_in(options.trl_python, "trl", "trl")
    work = Steps(
        options.model, resolve_model(options.model), options.steps, options.threads, options.trl_python, version
    )
    return Prepared(
        [ROWS[name].make(ROWS[name], work) for name in names],
        options.threads,
        {"trl": version},
        {"model": options.model, "steps": options.steps},
    )


def sums(count: int) -> list[dict[str, str]]:
    """Different additions below 41 with their answers."""
    pairs = [(one, other) for one in range(2, 21) for other in range(2, 21)]
    random.Random(0).shuffle(pairs)
    return [
        {"problem": f"What is {one}+{other}? Put the answer in \\boxed{{}}.", "answer": str(one + other)}
        for one, other in pairs[:count]
    ]


def _step_speed(runs: Sequence[Sequence[TrainingRun]]) -> list[Finding]:
    ours, peer = ([60 / run.seconds for run in side] for side in runs)
    notes = tuple(f"{name}: {side[0]}" for name, side in zip(("ours", "TRL"), runs, strict=True))
    return [compare("speed", "steps/min", ours, peer, 4.0, notes=notes)]


def _rollout_speed(runs: Sequence[Sequence[TrainingRun]]) -> list[Finding]:
    ours, single = ([run.rollout_tokens_per_s for run in side] for side in runs)
    return [compare("rollouts", "tok/s", ours, single, 3.6)]


def _ours(label: str, work: Steps) -> Entrant:
    command = [sys.executable, "-m", f"{children.__name__}.ours_grpo"]
    return Entrant(label, work.spec(), lambda file: [*command, str(file)], TrainingRun.read)


def _no_trl(python: Path | None) -> str:
    if python is not None:
        return f"no TRL there: `{python} -m pip install trl`"
    return "TRL lives in an environment of its own: `python -m venv trl && trl/bin/pip install trl`, then --trl-python trl/bin/python"
