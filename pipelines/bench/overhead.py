"""What Ray costs an evaluation: the same engine, once in one process and once behind actors."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipelines.bench import children
from pipelines.bench.findings import Finding, Runs, compare
from pipelines.bench.machine import usable_cores
from pipelines.bench.measurement import Measurement
from pipelines.bench.part import Prepared, positive
from pipelines.bench.rounds import Entrant, Trial
from pipelines.config import EvalConfig, load_config

LEAST_SHARE = 0.95
"""Of the speed in one process."""


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    compares: str
    optional: bool = False


ROWS: Mapping[str, Row] = {
    row.name: row
    for row in (
        Row("evaluation", "completions of an evaluation: through Ray's actors against one process without Ray"),
    )
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Model, problems, and the length of completions."""
    parser.add_argument(
        "--model", default="smollm2-135m", help="folder, hub id or built-in model (default smollm2-135m)"
    )
    parser.add_argument("--data", default=EvalConfig().data.source, help="as in `mathlete eval` (default MATH-500)")
    parser.add_argument("--problems", type=positive, default=128, metavar="N", help="default 128")
    parser.add_argument("--max-new-tokens", type=positive, default=256, metavar="N", help="default 256")
    parser.add_argument("--batch-size", type=positive, default=32, metavar="N", help="default 32")
    parser.add_argument(
        "--threads", type=positive, default=usable_cores(), metavar="N", help="of the engine (default: all cores)"
    )


def prepare(options: argparse.Namespace, names: Sequence[str]) -> Prepared:
    """The prompts, made once for both sides. Raises ConfigError, ProblemError, PromptError and ModelError."""
    from pipelines import task

    settings = {
        "model.name": options.model,
        "data.source": options.data,
        "data.limit": str(options.problems),
        "sampling.max_new_tokens": options.max_new_tokens,
        "generation.batch_size": options.batch_size,
        "generators.cpus_per_actor": options.threads,
    }
    words = [f"{key}={json.dumps(value)}" for key, value in settings.items()]
    prepared = task.prepare(load_config(EvalConfig, None, words))
    spec = {
        "settings": words,
        "model": asdict(prepared.model),
        "prompts": [list(prompt.token_ids) for prompt in prepared.prompts.values()],
    }
    facts = {
        name: settings[f"{section}.{name}"]
        for section, name in (("sampling", "max_new_tokens"), ("generation", "batch_size"))
    }
    return Prepared(
        [
            Trial(
                ROWS[name].name,
                ROWS[name].compares,
                [_side("ours, Ray", spec, True), _side("one process", spec, False)],
                judge,
            )
            for name in names
        ],
        options.threads,
        {},
        {"model": options.model, "data": options.data, **facts},
    )


def judge(runs: Sequence[Runs]) -> list[Finding]:
    """The speed through Ray as a share of that without it."""
    through, alone = ([run.tokens_per_s for run in side] for side in runs)
    return [compare("speed", "tok/s", through, alone, LEAST_SHARE)]


def _side(label: str, spec: Mapping[str, Any], through_ray: bool) -> Entrant:
    module = f"{children.__name__}.ours_dispatch"

    def command(file: Path) -> list[str]:
        return [sys.executable, "-m", module, str(file)]

    return Entrant(label, {**spec, "through_ray": through_ray}, command, Measurement.read)
