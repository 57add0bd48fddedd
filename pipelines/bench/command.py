"""`mathlete bench`: what can be measured, and how it ends. What belongs to one part is in its module."""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.bench import batching, dispatch, engine, grading, grpo, memory, overhead, scaling, workload_table
from pipelines.bench.machine import machine_facts
from pipelines.bench.part import Prepared, RowText, positive
from pipelines.bench.result import Result, default_folder, keep
from pipelines.bench.rounds import RowResult, measure
from pipelines.bench.table import machine_line, result_table
from pipelines.config import ConfigError
from pipelines.exit_codes import ExitCode
from pipelines.terminal.console import Console


@dataclass(frozen=True, slots=True)
class Part:
    """Something that has peers: its rows, its options, and how rows are made ready by them."""

    help: str
    rows: Mapping[str, RowText]
    add_options: Callable[[argparse.ArgumentParser], None]
    files: Sequence[str]
    """Options that name a file which must be there."""
    prepare: Callable[[argparse.Namespace, Sequence[str]], Prepared]
    packages: Sequence[str]
    """Whose versions matter."""


PARTS = {
    "engine": Part(
        "generation",
        engine.ROWS,
        engine.add_options,
        ("openvino_python", "gguf"),
        engine.prepare,
        ("torch", "transformers", "openvino-genai"),
    ),
    "grading": Part(
        "verdicts on answers",
        grading.ROWS,
        grading.add_options,
        ("cases", "hostile", "math_verify_python"),
        grading.prepare,
        ("sympy", "ray", "math-verify"),
    ),
    "grpo": Part(
        "training steps",
        grpo.ROWS,
        grpo.add_options,
        ("trl_python",),
        grpo.prepare,
        ("torch", "transformers", "ray", "trl"),
    ),
    "ray": Part(
        "what Ray costs",
        overhead.ROWS,
        overhead.add_options,
        (),
        overhead.prepare,
        ("torch", "transformers", "ray"),
    ),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A measurement of this project alone; its result goes into a run folder."""

    help: str
    rows: Mapping[str, RowText]
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Sequence[str], Console], Result]


KINDS = {
    name: Kind(module.HELP, module.ROWS, module.add_options, module.run)
    for name, module in (("table", workload_table), ("batching", batching), ("memory", memory), ("scaling", scaling))
}
PACKAGES = ("torch", "transformers", "ray")


def add_parser(commands: Any) -> None:
    """Add `bench` to the subcommands of the `mathlete` parser."""
    bench = commands.add_parser("bench", help="measure speed and memory on this machine")
    bench.set_defaults(tool=run)
    kinds = bench.add_subparsers(dest="bench", required=True, metavar="WHAT")
    dispatch.add_parser(kinds)
    for name, kind in KINDS.items():
        parser = kinds.add_parser(name, help=kind.help, description=kind.help)
        _add_shared_options(parser, kind.rows)
        kind.add_options(parser)
        parser.add_argument(
            "--dir", metavar="FOLDER", help="run folder of the result (default runs/bench-WHAT-MODEL-TIME)"
        )
    text = "run this project and what a user would pick instead on the same work, in turn, and print the ratios"
    peers = kinds.add_parser("peers", help=text, description=text)
    parts = peers.add_subparsers(dest="part", required=True, metavar="PART")
    for name, part in PARTS.items():
        parser = parts.add_parser(name, help=part.help, description=f"{part.help}: {text}")
        _add_shared_options(parser, part.rows)
        parser.add_argument(
            "--rounds", type=positive, default=3, metavar="N", help="times that each side runs (default 3)"
        )
        part.add_options(parser)


def _add_shared_options(parser: argparse.ArgumentParser, rows: Mapping[str, RowText]) -> None:
    parser.add_argument("--list", action="store_true", help="list the rows with what they compare and stop")
    parser.add_argument(
        "--row", action="append", metavar="NAME", choices=list(rows), help="only this row; may be repeated"
    )
    parser.add_argument(
        "--timeout-s", type=float, default=3600.0, metavar="S", help="a run that takes longer is killed (default 3600)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output, nothing else")
    parser.add_argument("--quiet", action="store_true", help="no progress, only warnings and errors")


def run(options: argparse.Namespace, console: Console, command: str) -> int:
    """Measure and print. COMPLETE if no child failed: a missed target or a missing peer is shown, and is no error."""
    rows = KINDS[options.bench].rows if options.bench in KINDS else PARTS[options.part].rows
    if options.list:
        list_rows(rows)
        return ExitCode.COMPLETE
    from actors.models import ModelError
    from pipelines.dispatch.signals import Preempted, StopFlag
    from pipelines.problems import ProblemError, PromptError
    from pipelines.records.run_folder import RunFolderError

    names = [name for name, row in rows.items() if (name in options.row if options.row else not row.optional)]
    try:
        StopFlag().install(immediate=True)
        if options.bench in KINDS:
            return _measure_kind(options, names, console, command)
        return _measure_part(options, names, console, command)
    except ConfigError as error:
        return _fail(options, console, "\n".join(error.messages), ExitCode.BAD_CONFIGURATION)
    except (ProblemError, PromptError) as error:
        return _fail(options, console, str(error), ExitCode.BAD_CONFIGURATION)
    except (ModelError, RunFolderError) as error:
        return _fail(options, console, str(error), ExitCode.ERROR)
    except Preempted:
        return _fail(options, console, "stopped; nothing of an unfinished row is kept", ExitCode.PREEMPTED)


def _measure_part(options: argparse.Namespace, names: Sequence[str], console: Console, command: str) -> int:
    part = PARTS[options.part]
    for name in part.files:
        path: Path | None = getattr(options, name)
        if path is not None and not path.is_file():
            raise ConfigError([f"{path}: no such file"])
    ready = part.prepare(options, names)
    machine = machine_facts(command, ready.threads, ready.peers)
    results = [measure(trial, options.rounds, options.timeout_s, console) for trial in ready.trials]
    code = ExitCode.ERROR if any(result.failed for result in results) else ExitCode.COMPLETE
    if options.json:
        print(json.dumps({"exit_code": code, **_document(options, ready, machine, results)}), flush=True)
    else:
        print(result_table(results, machine, part.packages), flush=True)
    return code


def _measure_kind(options: argparse.Namespace, names: Sequence[str], console: Console, command: str) -> int:
    machine = machine_facts(command, options.threads, {})
    result = KINDS[options.bench].run(options, names, console)
    document = result.document(options.bench, machine)
    name = default_folder(options.bench, str(result.facts["model"]))
    folder = keep(document, result.files, name, options.dir)
    code = ExitCode.ERROR if result.failed else ExitCode.COMPLETE
    if options.json:
        print(json.dumps({"exit_code": code, "run_dir": str(folder), **document}), flush=True)
    else:
        print(f"{result.text}\n\n{machine_line(machine, PACKAGES)}\nrun folder: {folder}", flush=True)
    return code


def list_rows(rows: Mapping[str, RowText]) -> None:
    """Print what the rows compare."""
    width = max(map(len, rows))
    for row in rows.values():
        asked = " (only with --row)" if row.optional else ""
        print(f"{row.name:<{width}}  {row.compares}{asked}")


def _document(
    options: argparse.Namespace, ready: Prepared, machine: dict[str, Any], results: Sequence[RowResult]
) -> dict[str, Any]:
    return {
        **ready.facts,
        "rounds": options.rounds,
        "machine": machine,
        "rows": [result.as_json() for result in results],
    }


def _fail(options: argparse.Namespace, console: Console, message: str, code: int) -> int:
    console.fail(message)
    if options.json:
        print(json.dumps({"exit_code": code, "error": message}), flush=True)
    return code
