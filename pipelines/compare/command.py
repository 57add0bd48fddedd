"""`mathlete compare`: two runs on the same problems."""

import argparse
import json
from pathlib import Path
from typing import Any

from pipelines.exit_codes import ExitCode
from pipelines.records.journal import JournalError
from pipelines.records.run_folder import RunFolderError, write_whole
from pipelines.terminal.console import Console, add_output_options

FLIPS = 10


def add_parser(commands: Any) -> None:
    """Add `compare` to the `mathlete` command's subparsers."""
    text = "compare two runs problem by problem: the difference with its interval, a paired test, and what changed"
    parser = commands.add_parser("compare", help=text, description=text)
    side = (
        "run folder, or its name below runs/; of a training run, RUN@STEP is one of its evaluations (default: the last)"
    )
    parser.add_argument("first", metavar="A", help=side)
    parser.add_argument("second", metavar="B", help="the same")
    parser.add_argument(
        "--allow-different-data",
        action="store_true",
        help="compare runs on different data, over the problems that have the same id, text and answer",
    )
    parser.add_argument("--html", metavar="FILE", help="also write it as an HTML page, with the completions of both")
    parser.add_argument(
        "--flips",
        type=int,
        default=FLIPS,
        metavar="N",
        help=f"problems to list in each direction (default {FLIPS}); --html and --json have them all",
    )
    add_output_options(parser)
    parser.set_defaults(tool=run)


def run(options: argparse.Namespace, console: Console, command: str) -> int:
    """Do what `options` ask for; returns the exit code."""
    from pipelines.compare.findings import OtherData, compare
    from pipelines.compare.sides import read_side
    from pipelines.compare.table import as_json, comparison_table
    from pipelines.compare.write import comparison_page

    try:
        first, second = read_side(options.first), read_side(options.second)
        found = compare(first, second, allow_different_data=options.allow_different_data)
    except (RunFolderError, OtherData) as error:
        console.fail(str(error))
        return ExitCode.BAD_CONFIGURATION
    except JournalError as error:
        console.fail(str(error))
        return ExitCode.ERROR
    if options.html:
        path = Path(options.html).expanduser()
        try:
            write_whole(path, comparison_page(found))
        except RunFolderError as error:
            console.fail(str(error))
            return ExitCode.ERROR
        console.say(f"written: {path}")
    print(json.dumps(as_json(found)) if options.json else comparison_table(found, options.flips))
    return ExitCode.COMPLETE
