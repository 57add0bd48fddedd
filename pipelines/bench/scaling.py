"""`mathlete bench scaling`: one evaluation by one to N actors, through the real command and its dispatch."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pipelines.bench.data import default_source
from pipelines.bench.findings import Finding, compare
from pipelines.bench.machine import usable_cores
from pipelines.bench.part import PlainRow, positive
from pipelines.bench.result import Result
from pipelines.bench.rounds import Entrant, RowResult, Trial, measure
from pipelines.bench.table import columns
from pipelines.config import ConfigError, EvalConfig, load_config
from pipelines.terminal.console import Console

LONG_S = 30.0
"""A run that takes less says little: actors are ready at different times."""

HELP = "one evaluation by one to N actors on this machine or a cluster: throughput and efficiency"


ROWS: Mapping[str, PlainRow] = {
    "evaluation": PlainRow("evaluation", "greedy completions of the same problems by more and more actors of one size")
}


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """What one evaluation told. Seconds from the first actor being ready, so that starting Ray and loading are in none."""

    actors: int
    tokens: int
    tokens_per_s: float
    seconds: float
    occupancy: float | None
    limit_share: float | None

    @classmethod
    def read(cls, actors: int, found: Mapping[str, Any]) -> "EvaluationRun":
        """From what `mathlete eval --json` printed."""
        speed = found["throughput"]
        shares = (speed.get("occupancy"), speed.get("limit_share"))
        return cls(actors, found["tokens"]["total"], speed["tokens_per_s"], speed["seconds"], *shares)

    def __str__(self) -> str:
        return f"{self.tokens_per_s:.4g} tokens/s, {self.seconds:.3g} s"

    def as_json(self) -> dict[str, Any]:
        return {
            "actors": self.actors,
            "tokens": self.tokens,
            "tokens_per_s": self.tokens_per_s,
            "seconds": self.seconds,
            "occupancy": self.occupancy,
            "limit_share": self.limit_share,
        }


def add_options(parser: argparse.ArgumentParser) -> None:
    """Model, problems, and the actors."""
    parser.add_argument("--model", default="smollm2-135m", help="folder, hub id or built-in model")
    parser.add_argument("--data", help="as in `mathlete eval` (default MATH-500 where there is a local copy)")
    parser.add_argument("--problems", type=positive, default=128, metavar="N", help="of the evaluation (default 128)")
    parser.add_argument("--max-new-tokens", type=positive, default=256, metavar="N", help="(default 256)")
    parser.add_argument("--batch-size", type=positive, default=32, metavar="N", help="rows of an actor (default 32)")
    parser.add_argument(
        "--actors",
        type=positive,
        action="append",
        metavar="N",
        help="numbers of actors to compare; may be repeated (default 1, 2, 4, … up to the cores here)",
    )
    parser.add_argument("--cpus-per-actor", type=positive, default=1, metavar="N", help="the same for all (default 1)")
    parser.add_argument("--gpus-per-actor", type=float, default=0.0, metavar="G", help="1, or a share 1/k (default 0)")
    parser.add_argument("--address", default="auto", help="of a Ray cluster (default: a private Ray on this machine)")
    parser.add_argument("--rounds", type=positive, default=2, metavar="N", help="times that each runs (default 2)")
    parser.add_argument("--threads", type=positive, default=usable_cores(), help=argparse.SUPPRESS)


def run(options: argparse.Namespace, names: Sequence[str], console: Console) -> Result:
    """Measure. Raises ConfigError before anything runs."""
    counts = sorted(set(options.actors or _powers(usable_cores() // options.cpus_per_actor)))
    if len(counts) < 2:
        raise ConfigError(
            [f"only {counts} actor(s) of {options.cpus_per_actor} core(s): name two numbers or more with --actors"]
        )
    source = options.data or default_source()
    settings = {
        "model.name": options.model,
        "data.source": source,
        "data.limit": options.problems,
        "sampling.max_new_tokens": options.max_new_tokens,
        "generation.batch_size": options.batch_size,
        "generators.cpus_per_actor": options.cpus_per_actor,
        "generators.gpus_per_actor": options.gpus_per_actor,
        "cluster.address": options.address,
    }
    load_config(EvalConfig, None, [f"{name}={value}" for name, value in settings.items()])
    entrants = [
        Entrant(
            f"{count} actor(s)",
            settings | {"generators.num_actors": count, "generators.min_actors": count},
            partial(_command, settings, count),
            partial(EvaluationRun.read, count),
        )
        for count in counts
    ]
    results = [
        measure(Trial(row.name, row.compares, entrants, _judge), options.rounds, options.timeout_s, console)
        for row in (ROWS[name] for name in names)
    ]
    facts = {"model": options.model, "data": source, "problems": options.problems, "actors": counts}
    return Result(facts, results, "\n\n".join(map(_text, results)), options.threads)


def _command(settings: Mapping[str, Any], count: int, file: Path) -> list[str]:
    """An evaluation whose run folder goes with the child's own file."""
    own = {"generators.num_actors": count, "generators.min_actors": count, "run.dir": file.parent / "run"}
    words = [f"{name}={value}" for name, value in {**settings, **own}.items()]
    return [sys.executable, "-m", "pipelines", "eval", *words, "--json", "--quiet"]


def _powers(most: int) -> list[int]:
    found = [1]
    while 2 * found[-1] <= most:
        found.append(2 * found[-1])
    return found


def _judge(runs: Sequence[Sequence[EvaluationRun]]) -> list[Finding]:
    """Throughput to that of the fewest actors; `efficiency` is that over how many times as many they are."""
    first = runs[0]
    findings = []
    for side in runs[1:]:
        more = side[0].actors / first[0].actors
        ours, fewest = ([run.tokens_per_s for run in each] for each in (side, first))
        found = compare(f"{side[0].actors} actors to {first[0].actors}", "tok/s", ours, fewest, None)
        found.details["efficiency"] = found.ratio / more
        findings.append(found)
    return findings


def _text(result: RowResult) -> str:
    if not result.findings:
        return f"{result.trial.name}: failed: {(result.failed or '').splitlines()[0]}"
    lines = [("actors", "tokens/s", "speed-up", "range", "efficiency")]
    lines += [
        (
            finding.what,
            f"{finding.ours:.4g} to {finding.peer:.4g}",
            f"{finding.ratio:.2f} x",
            f"{finding.low:.2f} to {finding.high:.2f}",
            f"{finding.details['efficiency']:.0%}",
        )
        for finding in result.findings
    ]
    shortest = min(run.seconds for run in _all_runs(result))
    short = [f"a run took {shortest:.1f} s: below {LONG_S:g} s the actors' loading is most of it, raise --problems"]
    head = f"{result.trial.name}: {result.trial.compares}"
    return "\n".join([head, "", *columns(lines), *(short if shortest < LONG_S else [])])


def _all_runs(result: RowResult) -> list[Any]:
    return [run for runs in result.runs.values() for run in runs]
