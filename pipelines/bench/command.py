"""`mathlete bench`: what can be measured, its options, and how it ends."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.bench import work
from pipelines.bench.contenders import Setup, openvino_version
from pipelines.bench.machine import machine_facts, usable_cores
from pipelines.bench.rounds import RowResult, measure_row
from pipelines.bench.rows import ROWS, Row
from pipelines.bench.table import result_table
from pipelines.config import ConfigError, EvalConfig, load_config
from pipelines.exit_codes import ExitCode
from pipelines.records.console import Console


def add_parser(commands: Any) -> None:
    """Add `bench` to the subcommands of the `mathlete` parser."""
    bench = commands.add_parser("bench", help="measure speed and memory on this machine")
    kinds = bench.add_subparsers(dest="bench", required=True, metavar="WHAT")
    text = "run this project and what a user would pick instead on the same work, in turn, and print the ratios"
    peers = kinds.add_parser("peers", help=text, description=text)
    peers.add_argument("part", choices=["engine"], help="engine: generation")
    peers.add_argument("--list", action="store_true", help="list the rows with what they compare and stop")
    peers.add_argument(
        "--row", action="append", metavar="NAME", choices=list(ROWS), help="only this row; may be repeated"
    )
    peers.add_argument("--rounds", type=_positive, default=3, metavar="N", help="times that each side runs (default 3)")
    peers.add_argument(
        "--problems",
        type=_positive,
        default=work.PROBLEMS,
        metavar="N",
        help="fewer problems, for a trial (default 128)",
    )
    peers.add_argument(
        "--one-by-one-problems",
        type=_positive,
        default=16,
        metavar="N",
        help="problems that are run one by one, evenly spread over all (default 16)",
    )
    peers.add_argument(
        "--timeout-s", type=float, default=3600.0, metavar="S", help="a run that takes longer is killed (default 3600)"
    )
    peers.add_argument(
        "--model", default="smollm2-135m", help="folder, hub id or built-in model (default smollm2-135m)"
    )
    peers.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or float16 (default auto)")
    peers.add_argument("--threads", type=_positive, default=usable_cores(), metavar="N", help="default: all cores")
    peers.add_argument("--data", default=EvalConfig().data.source, help="as in `mathlete eval` (default MATH-500)")
    peers.add_argument("--openvino-python", type=Path, metavar="PATH", help="interpreter that has openvino_genai")
    peers.add_argument("--gguf", type=Path, metavar="FILE", help="the model's GGUF file, for OpenVINO GenAI")
    peers.add_argument("--json", action="store_true", help="print one JSON document on standard output, nothing else")
    peers.add_argument("--quiet", action="store_true", help="no progress, only warnings and errors")


def run(options: argparse.Namespace, console: Console, command: str) -> int:
    """Measure and print. COMPLETE if no child failed: a missed target or a missing peer is shown, and is no error."""
    if options.list:
        _list()
        return ExitCode.COMPLETE
    from actors.models import ModelError
    from pipelines.dispatch.signals import Preempted, StopFlag
    from pipelines.problems import ProblemError, PromptError

    try:
        StopFlag().install(immediate=True)
        for path in (options.openvino_python, options.gguf):
            if path is not None and not path.is_file():
                raise ConfigError([f"{path}: no such file"])
        setup, supply = _prepare(options)
        machine = machine_facts(command, options.threads, setup.openvino)
        results = [measure_row(row, supply, setup, options.rounds, console) for row in _rows(options.row)]
    except ConfigError as error:
        return _fail(options, console, "\n".join(error.messages), ExitCode.BAD_CONFIGURATION)
    except (ProblemError, PromptError) as error:
        return _fail(options, console, str(error), ExitCode.BAD_CONFIGURATION)
    except ModelError as error:
        return _fail(options, console, str(error), ExitCode.ERROR)
    except Preempted:
        return _fail(options, console, "stopped; nothing of an unfinished row is kept", ExitCode.PREEMPTED)
    code = ExitCode.ERROR if any(result.failed for result in results) else ExitCode.COMPLETE
    if options.json:
        print(json.dumps({"exit_code": code, **_document(options, machine, results)}), flush=True)
    else:
        print(result_table(results, machine), flush=True)
    return code


def _prepare(options: argparse.Namespace) -> tuple[Setup, work.Supply]:
    """The prompts, made once for all, and what every child is told."""
    from pipelines import task

    settings = {
        "model.name": options.model,
        "model.dtype": options.dtype,
        "data.source": options.data,
        "data.limit": str(options.problems),
    }
    config = load_config(EvalConfig, None, [f"{key}={json.dumps(value)}" for key, value in settings.items()])
    prepared = task.prepare(config)
    setup = Setup(
        prepared.model,
        options.threads,
        options.timeout_s,
        options.openvino_python,
        openvino_version(options.openvino_python),
        options.gguf,
    )
    prompts = tuple(tuple(prompt.token_ids) for prompt in prepared.prompts.values())
    return setup, work.Supply(prompts, prepared.context_length, options.one_by_one_problems)


def _rows(names: Sequence[str] | None) -> list[Row]:
    return [row for row in ROWS.values() if (row.name in names if names else not row.optional)]


def _list() -> None:
    width = max(map(len, ROWS))
    for row in ROWS.values():
        asked = " (only with --row)" if row.optional else ""
        print(f"{row.name:<{width}}  {row.compares}{asked}")


def _document(options: argparse.Namespace, machine: dict[str, Any], results: Sequence[RowResult]) -> dict[str, Any]:
    return {
        "model": options.model,
        "dtype": options.dtype,
        "data": options.data,
        "rounds": options.rounds,
        "machine": machine,
        "rows": [result.as_json() for result in results],
    }


def _fail(options: argparse.Namespace, console: Console, message: str, code: int) -> int:
    console.fail(message)
    if options.json:
        print(json.dumps({"exit_code": code, "error": message}), flush=True)
    return code


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
