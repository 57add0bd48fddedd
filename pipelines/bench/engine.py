"""Generation against its peers: options, and rows made ready to run."""

import argparse
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pipelines.bench import work
from pipelines.bench.contenders import Setup
from pipelines.bench.machine import usable_cores, version_in
from pipelines.bench.measurement import Measurement
from pipelines.bench.part import Prepared, positive
from pipelines.bench.rounds import Entrant, Trial
from pipelines.bench.rows import ROWS, Row
from pipelines.config import EvalConfig, load_config
from pipelines.problems import PromptError

__all__ = ["ROWS", "add_options", "prepare", "trial"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Model, problems, and where the peers are."""
    parser.add_argument(
        "--problems",
        type=positive,
        default=work.PROBLEMS,
        metavar="N",
        help="fewer problems, for a trial (default 128)",
    )
    parser.add_argument(
        "--one-by-one-problems",
        type=positive,
        default=16,
        metavar="N",
        help="problems that are run one by one, evenly spread over all (default 16)",
    )
    parser.add_argument(
        "--model", default="smollm2-135m", help="folder, hub id or built-in model (default smollm2-135m)"
    )
    parser.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or float16 (default auto)")
    parser.add_argument("--threads", type=positive, default=usable_cores(), metavar="N", help="default: all cores")
    parser.add_argument("--data", default=EvalConfig().data.source, help="as in `mathlete eval` (default MATH-500)")
    parser.add_argument("--openvino-python", type=Path, metavar="PATH", help="interpreter that has openvino_genai")
    parser.add_argument("--gguf", type=Path, metavar="FILE", help="the model's GGUF file, for OpenVINO GenAI")


def prepare(options: argparse.Namespace, names: Sequence[str]) -> Prepared:
    """The prompts, made once for all, and what every child is told. Raises ConfigError, ProblemError, PromptError and
    ModelError."""
    from pipelines import task

    settings = {
        "model.name": options.model,
        "model.dtype": options.dtype,
        "data.source": options.data,
        "data.limit": str(options.problems),
    }
    config = load_config(EvalConfig, None, [f"{key}={json.dumps(value)}" for key, value in settings.items()])
    prepared = task.prepare(config)
    openvino = version_in(options.openvino_python, "openvino_genai", "openvino-genai")
    setup = Setup(prepared.model, options.threads, options.openvino_python, openvino, options.gguf)
    prompts = tuple(tuple(prompt.token_ids) for prompt in prepared.prompts.values())
    supply = work.Supply(prompts, prepared.context_length, options.one_by_one_problems)
    return Prepared(
        [trial(ROWS[name], supply, setup) for name in names],
        options.threads,
        {"openvino-genai": openvino},
        {"model": options.model, "dtype": options.dtype, "data": options.data},
    )


def trial(row: Row, supply: work.Supply, setup: Setup) -> Trial:
    """The row with its work, or with what is missing for it."""
    try:
        works = [side.make(supply) for side in row.sides]
    except PromptError as error:
        return Trial(row.name, row.compares, missing=str(error))
    return Trial(
        row.name,
        row.compares,
        [
            Entrant(
                side.label,
                setup.spec(side.contender, each),
                partial(setup.command, side.contender),
                Measurement.read,
            )
            for side, each in zip(row.sides, works, strict=True)
        ],
        row.judge,
        less="; ".join(dict.fromkeys(each.less for each in works if each.less)),
        missing=next((why for side in row.sides if (why := setup.missing(side.contender))), None),
    )
