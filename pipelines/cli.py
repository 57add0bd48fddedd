"""The `mathlete` command.

Exit codes: 0 complete, 1 error, 2 bad configuration or data, 3 resources missing, 4 finished above the error
threshold, 143 stopped and resumable.
"""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipelines import grade, runs, submit
from pipelines.bench import command as bench
from pipelines.compare import command as compare
from pipelines.config import (
    ConfigError,
    DistillConfig,
    EvalConfig,
    GrpoConfig,
    JobConfig,
    describe_settings,
    dump_config,
    load_config,
)
from pipelines.exit_codes import ExitCode
from pipelines.report import command as report
from pipelines.terminal.console import Console

JOBS: dict[str, type[JobConfig]] = {"eval": EvalConfig, "grpo": GrpoConfig, "distill": DistillConfig}
"""The commands that run a configuration, and its schema."""

TOOLS = (submit, report, compare, runs, grade, bench)
"""The modules of the other commands: each has `add_parser(commands)`, which sets the default `tool` to a function of
the options, the console and the command line that returns the exit code."""

Table = Callable[[Mapping[str, Any]], str]

_SHORT = {
    "limit": "data.limit",
    "problem_id": "data.ids",
    "subject": "data.subjects",
    "level": "data.levels",
    "rollouts_from": "grpo.rollouts_from",
    "from_run": "data.from_run",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except BrokenPipeError:  # whoever read our output has seen enough, as in `mathlete eval … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.ERROR


def _run(words: list[str]) -> int:
    options = _parse(words)
    console = Console(quiet=options.quiet)
    command = shlex.join(["mathlete", *words])
    if options.tool is not None:
        return int(options.tool(options, console, command))
    schema = JOBS[options.job if options.command == "validate" else options.command]
    try:
        config = load_config(schema, options.config, [*options.overrides, *_short_overrides(options)])
    except ConfigError as error:
        for message in error.messages:
            console.fail(message)
        return ExitCode.BAD_CONFIGURATION
    if options.print_config:
        print(dump_config(config), end="")
        return ExitCode.COMPLETE
    if options.command == "validate":
        print("the configuration is valid")
        return ExitCode.COMPLETE
    return _run_job(config, options, console, command)


def _run_job(config: JobConfig, options: argparse.Namespace, console: Console, command: str) -> int:
    # Late, so that --help and validate need not load Ray.
    from actors.models import ModelError
    from pipelines.dispatch.preflight import Shortfall
    from pipelines.dispatch.signals import Preempted, StopFlag
    from pipelines.dispatch.work import FatalError
    from pipelines.problems import ProblemError, PromptError
    from pipelines.records.journal import JournalError
    from pipelines.records.run_folder import OtherConfiguration, RunFolderError

    describe, run, table = _job(config)
    stop = StopFlag()
    if not console.live:  # bars of libraries are for terminals
        os.environ.setdefault("TQDM_DISABLE", "1")
    try:
        stop.install(immediate=True)
        if options.dry_run:
            print(describe(config))
            return ExitCode.COMPLETE
        summary, code = run(config, console, stop, command)
    except (ConfigError, ProblemError, PromptError, OtherConfiguration) as error:
        return _fail(console, error, ExitCode.BAD_CONFIGURATION, options)
    except Shortfall as error:
        return _fail(console, f"not enough resources for the run\n{error}", ExitCode.RESOURCES_MISSING, options)
    except (ModelError, RunFolderError, JournalError, FatalError) as error:
        return _fail(console, error, ExitCode.ERROR, options)
    except Preempted:
        return _fail(console, f"stopped before any work began; to run: {command}", ExitCode.PREEMPTED, options)
    finally:
        console.close()
    _show(summary, code, options, table)
    if code == ExitCode.PREEMPTED:
        console.say(f"stopped by {stop.requested}; to resume: {command}")
    return code


def _job(config: JobConfig) -> tuple[Callable[..., str], Callable[..., tuple[dict[str, Any], ExitCode]], Table]:
    """How to describe and to run what `config` says, and the table of its summary."""
    if isinstance(config, GrpoConfig | DistillConfig):
        from pipelines import distill, grpo
        from pipelines.training.table import training_table

        if isinstance(config, GrpoConfig):
            return grpo.describe, grpo.train, training_table
        return distill.describe, distill.train, training_table
    from pipelines import evaluate, task
    from pipelines.records.table import result_table

    return task.describe, evaluate.evaluate, result_table


def _show(summary: dict[str, Any], code: int, options: argparse.Namespace, table: Table) -> None:
    if options.json:
        print(json.dumps({"exit_code": code, **summary}), flush=True)
    else:
        folder = summary["run_dir"]
        print(f"\n{table(summary)}\n\nto read its samples: mathlete report {shlex.quote(folder)}")
        print(f"run folder: {folder} ({summary['status']})", flush=True)


def _fail(console: Console, error: object, code: int, options: argparse.Namespace) -> int:
    console.fail(str(error))
    if options.json:
        print(json.dumps({"exit_code": code, "status": "failed", "error": str(error)}), flush=True)
    return code


def _parse(words: Sequence[str]) -> argparse.Namespace:
    """Options and overrides in any order, which argparse alone does not allow behind a command."""
    parser = _parser()
    options, rest = parser.parse_known_args(words)
    takes_settings = hasattr(options, "overrides")
    if unknown := [word for word in rest if word.startswith("-") or not takes_settings]:
        parser.error(f"unknown option {' '.join(unknown)}; `mathlete {options.command} --help` lists them")
    if takes_settings:
        options.overrides += rest
    return options


def _short_overrides(options: argparse.Namespace) -> list[str]:
    given = {path: getattr(options, name, None) for name, path in _SHORT.items()}
    return [f"{path}={json.dumps(value)}" for path, value in given.items() if value]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mathlete",
        description="Measure and improve the mathematical reasoning of language models, distributed with Ray.",
    )
    parser.set_defaults(tool=None)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in (
        ("eval", "evaluate a model on math problems; run the same command again to resume"),
        ("grpo", "train a model on problems with verifiable answers; run the same command again to resume"),
        ("distill", "train a model on worked solutions; run the same command again to resume"),
        ("validate", "check a configuration and stop"),
    ):
        described = describe_settings(JOBS.get(name, EvalConfig))
        settings = "\n".join(["settings, with their defaults:", *described])
        command = commands.add_parser(
            name, help=text, description=text, epilog=settings, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        command.add_argument(
            "overrides", nargs="*", metavar="SECTION.KEY=VALUE", help="settings that override the file's"
        )
        command.add_argument("--config", metavar="FILE", help="YAML file with settings")
        command.add_argument("--limit", metavar="N|A-B", help="the first N problems, or problems A to B counted from 1")
        command.add_argument("--problem-id", metavar="ID", action="append", help="only this problem; may be repeated")
        command.add_argument("--subject", metavar="NAME", action="append", help="only this subject; may be repeated")
        command.add_argument("--level", metavar="N", type=int, action="append", help="only this level; may be repeated")
        command.add_argument("--print-config", action="store_true", help="print the resolved settings as YAML and stop")
        command.add_argument(
            "--dry-run", action="store_true", help="load data and tokenizer, show the plan, start nothing"
        )
        command.add_argument("--json", action="store_true", help="print the result as one JSON line on standard output")
        command.add_argument(
            "--quiet", action="store_true", help="no notices and no progress, only warnings and errors"
        )
        if name == "grpo":
            command.add_argument(
                "--rollouts-from",
                metavar="RUN",
                help="train from the recorded rollouts of another run; generate nothing",
            )
        if name == "distill":
            command.add_argument(
                "--from-run",
                metavar="RUN",
                help="learn the correct completions of another run: its folder, or its name",
            )
        if name == "validate":
            command.add_argument("--job", choices=JOBS, default="eval", help="the command that it is for")
    for tool in TOOLS:
        tool.add_parser(commands)
    return parser
