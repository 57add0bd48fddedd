"""`mathlete report`: a run as one HTML file."""

import argparse
import json
from pathlib import Path
from typing import Any

from pipelines.exit_codes import ExitCode
from pipelines.records.journal import JournalError
from pipelines.records.run_folder import RunFolderError, write_whole
from pipelines.records.runs import find_run, read_run
from pipelines.report.page import DEFAULT_MB
from pipelines.terminal.console import Console, add_output_options


def add_parser(commands: Any) -> None:
    """Add `report` to the `mathlete` command's subparsers."""
    text = "write a run's report: one HTML file with results, curves and all samples, also while the run is going on"
    parser = commands.add_parser("report", help=text, description=text)
    parser.add_argument("run", metavar="RUN", help="run folder, or its name below runs/")
    parser.add_argument("--output", metavar="FILE", help="where to write it (default report.html in the run folder)")
    parser.add_argument(
        "--max-mb",
        type=float,
        default=DEFAULT_MB,
        metavar="MB",
        help=f"shorten long completions where the file would be larger (default {DEFAULT_MB:g})",
    )
    add_output_options(parser)
    parser.set_defaults(tool=run)


def run(options: argparse.Namespace, console: Console, command: str) -> int:
    """Do what `options` ask for; returns the exit code."""
    if options.max_mb <= 0:
        console.fail(f"--max-mb must be above 0, got {options.max_mb:g}")
        return ExitCode.BAD_CONFIGURATION
    try:
        found = read_run(find_run(options.run))
    except RunFolderError as error:
        console.fail(str(error))
        return ExitCode.BAD_CONFIGURATION
    from pipelines.report.write import report

    path = Path(options.output).expanduser() if options.output else found.path / "report.html"
    try:
        text = report(found, options.max_mb)
        write_whole(path, text)
    except (JournalError, RunFolderError) as error:
        console.fail(str(error))
        return ExitCode.ERROR
    size = path.stat().st_size
    if options.json:
        facts = {"report": str(path.resolve()), "size_bytes": size, "status": found.status}
        print(json.dumps({**facts, "done": found.done, "planned": found.planned}))
    else:
        if not found.finished:
            console.say(f"{found.name} is not finished: {found.progress} are there")
        print(f"{path} ({size / 1e6:.1f} MB)")
    return ExitCode.COMPLETE
