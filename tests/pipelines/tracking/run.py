"""A run folder that is written as a run would, tracked for real, and what W&B's own library reads from its files."""

import io
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.config.schema import TrackingConfig
from pipelines.exit_codes import ExitCode
from pipelines.problems import Problem
from pipelines.records.journal import JsonLines, Sample
from pipelines.records.rollouts import RolloutRecord
from pipelines.records.run_folder import RunFolder
from pipelines.terminal.console import Console
from pipelines.tracking.tracker import Tracker, tracked
from pipelines.tracking.wandb_files import history_values, read_records

CONFIG: dict[str, Any] = {"model": {"name": "tiny"}, "sampling": {"temperature": 0.5}}
ORIGIN = {"command": "mathlete eval", "versions": {"torch": "2"}}


@dataclass
class Run:
    """A run folder with its metrics, and what was said to the person. The folder outlives sessions."""

    path: Path
    config: TrackingConfig
    said: io.StringIO = field(default_factory=io.StringIO)

    def __post_init__(self) -> None:
        self.path.mkdir(exist_ok=True)
        self.folder = RunFolder(self.path)
        self.folder.claim({"a": 1}, {"config": CONFIG, "provenance": ORIGIN})
        self.metrics = JsonLines(self.path / "metrics.jsonl")

    @contextmanager
    def session(self) -> Iterator[Tracker]:
        self.said = io.StringIO()
        with tracked(self.config, "eval", self.folder, Console(self.said)) as tracker:
            yield tracker

    def complete(self, tracker: Tracker, samples: Sequence[Sample | RolloutRecord] = ()) -> None:
        self.folder.write_json(
            self.folder.summary_path, {"status": "complete", "accuracy": 0.5, "interval_95": [0.4, 0.6]}
        )
        problems = {"p": Problem("p", "What is 1 + 1?", "2")}
        tracker.conclude(ExitCode.COMPLETE, lambda: samples, problems)

    def wait_for(self, text: str, seconds: float = 60) -> None:
        wait_until(lambda: text in self.said.getvalue(), seconds)

    @property
    def warnings(self) -> list[str]:
        return [line for line in self.said.getvalue().splitlines() if line.startswith("warning")]


def wait_until(condition: Callable[[], Any], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.02)


@dataclass
class Session:
    """One of W&B's files, read record by record."""

    run_id: str
    config: dict[str, Any]
    history: list[dict[str, Any]]
    axes: dict[str, str]
    """By name or pattern of a metric."""
    summary: dict[str, Any]
    exit_code: int | None
    preempting: bool
    artifacts: dict[str, list[tuple[set[str], set[str]]]]
    """Aliases and files of each, by type."""


def read_sessions(run: Path) -> list[Session]:
    """The sessions of a run folder, in order."""
    found = []
    for path in sorted((run / "wandb").glob("*run-*/run-*.wandb")):
        session = Session("", {}, [], {}, {}, None, False, {})
        for record in read_records(path):
            _take(record, session)
        found.append(session)
    return found


def _take(record: Any, session: Session) -> None:
    match record.WhichOneof("record_type"):
        case "run":
            session.run_id = record.run.run_id
            session.config |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
        case "history":
            session.history.append(history_values(record.history))
        case "metric":
            session.axes[record.metric.name or record.metric.glob_name] = record.metric.step_metric
        case "summary":
            session.summary |= {
                item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.summary.update
            }
        case "exit":
            session.exit_code = record.exit.exit_code
        case "preempting":
            session.preempting = True
        case "artifact":
            files = {entry.path for entry in record.artifact.manifest.contents}
            session.artifacts.setdefault(record.artifact.type, []).append((set(record.artifact.aliases), files))


def curve(sessions: Sequence[Session], name: str, axis: str) -> list[tuple[int, float]]:
    """The points of a value over all sessions, in the order in which they were logged."""
    rows = [row for session in sessions for row in session.history]
    return [(row[axis], row[name]) for row in rows if name in row]


def children(name: str) -> list[int]:
    """The living processes with this in their command line, where a null character separates words."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if name in (folder / "cmdline").read_text():
                found.append(int(folder.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]
