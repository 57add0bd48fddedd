"""`mathlete runs`: what is in the runs folder."""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.exit_codes import ExitCode
from pipelines.records.run_folder import RunFolderError
from pipelines.records.runs import RunInfo, read_run
from pipelines.terminal.console import Console, add_output_options
from pipelines.terminal.status import duration

COLUMNS = ("NAME", "JOB", "STATUS", "RESULT", "MODEL", "DATA", "CHANGED", "SIZE")
DAY_S = 86400
LONGEST = 36
"""Characters of a name in the table."""


def add_parser(commands: Any) -> None:
    """Add `runs` to the `mathlete` command's subparsers."""
    text = "list the runs in a folder: job, status, result, age, size; the one that changed last stands first"
    parser = commands.add_parser("runs", help=text, description=text)
    parser.add_argument("folder", nargs="?", default="runs", metavar="FOLDER", help="where they are (default runs)")
    add_output_options(parser)
    parser.set_defaults(tool=run)


def run(options: argparse.Namespace, console: Console, command: str) -> int:
    """Do what `options` ask for; returns the exit code."""
    folder = Path(options.folder).expanduser()
    if not folder.is_dir():
        console.fail(f"{folder}: no such folder; `mathlete eval` and the other jobs make runs/ where they are started")
        return ExitCode.BAD_CONFIGURATION
    found = []
    for manifest in sorted(folder.glob("*/manifest.json")):
        try:
            found.append(read_run(manifest.parent.resolve()))
        except RunFolderError as error:
            console.warn(str(error))
    found.sort(key=lambda info: -info.changed)
    if options.json:
        print(json.dumps({"folder": str(folder.resolve()), "runs": [as_json(info) for info in found]}))
    elif not found:
        console.say(f"{folder}: holds no runs")
    else:
        print(run_table(found, time.time()))
    return ExitCode.COMPLETE


def as_json(info: RunInfo) -> dict[str, Any]:
    """What `--json` tells of a run."""
    names = ("name", "job", "status", "model", "data", "done", "planned", "accuracy", "interval_95", "created")
    return {
        **{name: getattr(info, name) for name in names},
        "run_dir": str(info.path),
        "changed": info.changed,
        "size_bytes": info.size_bytes,
    }


def run_table(runs: Sequence[RunInfo], now: float) -> str:
    """A line a run; `now` is a Unix time."""
    rows = [
        (
            info.name,
            info.job,
            info.status if info.finished else f"{info.status}, {info.progress}",
            result_text(info),
            name_text(info.model),
            name_text(info.data),
            age_text(now - info.changed),
            size_text(info.size_bytes),
        )
        for info in runs
    ]
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in (COLUMNS, *rows))
    return "\n".join(line.rstrip() for line in lines)


def result_text(info: RunInfo) -> str:
    """`41.2% ± 4.3`, with half the interval's width in points; `-` where there is no result yet."""
    if info.accuracy is None:
        return "-"
    if info.interval_95 is None:
        return f"{info.accuracy:.1%} so far"
    low, high = info.interval_95
    return f"{info.accuracy:.1%} ± {(high - low) * 50:.1f}"


def name_text(name: str) -> str:
    """The name, or its end: models and data may be long paths."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in name)
    return plain if len(plain) <= LONGEST else f"…{plain[1 - LONGEST :]}"


def age_text(seconds: float) -> str:
    """`now`, `5 min ago`, `3 h 20 min ago`, `4 days ago`."""
    if seconds < 10:
        return "now"
    return f"{duration(seconds)} ago" if seconds < 2 * DAY_S else f"{seconds / DAY_S:.0f} days ago"


def size_text(size: int) -> str:
    """`812 B`, `3.1 MB`."""
    if size < 1000:
        return f"{size} B"
    value, units = size / 1000, ["kB", "MB", "GB", "TB"]
    while value >= 999.5 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.3g} {units[0]}"
