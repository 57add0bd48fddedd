"""What can be told of a run from its folder at once, without reading its samples."""

import fcntl
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipelines.records.run_folder import RunFolderError, find_file
from pipelines.records.steps import read_steps

TAIL_BYTES = 65536
WRITTEN_LATER = ("report.html", "LOCK")
"""Files that tell nothing of when the run made progress."""

Job = Literal["eval", "grpo", "distill"]


@dataclass(frozen=True, slots=True)
class RunInfo:
    """The state of a run.

    `status`: `running` while a process holds its lock, else what its summary says (`complete`, `preempted`,
    `unfinished`, `above the error threshold`), else `interrupted`: its process died before it could write one.
    `done` and `planned` count samples of an evaluation, steps of a training. `accuracy` is that of an evaluation, or of
    a training's last one; `interval_95` belongs to it where it is known. `changed` is a Unix time, `created` as written.
    """

    path: Path
    job: Job
    status: str
    model: str
    data: str
    done: int
    planned: int | None
    accuracy: float | None
    interval_95: tuple[float, float] | None
    created: str
    changed: float
    size_bytes: int
    manifest: dict[str, Any]
    summary: dict[str, Any]

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def config(self) -> dict[str, Any]:
        return self.manifest.get("config", {})

    @property
    def finished(self) -> bool:
        return self.status in ("complete", "above the error threshold")

    @property
    def progress(self) -> str:
        """`500 samples`, `412 of 500 samples`, `60 of 300 steps`."""
        unit = "samples" if self.job == "eval" else "steps"
        of = f" of {self.planned}" if self.planned and self.planned != self.done else ""
        return f"{self.done}{of} {unit}"


def find_run(name: str) -> Path:
    """The folder that `name` means, a path or a name below runs/. Raises RunFolderError where there is none."""
    manifest = find_file(name, ["manifest.json"])
    if manifest is None:
        raise RunFolderError(f"{name}: no run there, nor in runs/; a run folder holds manifest.json")
    return manifest.parent.resolve()


def read_run(path: Path) -> RunInfo:
    """Raises RunFolderError for a folder whose manifest cannot be read."""
    manifest, summary = _read_json(path / "manifest.json"), _read_json(path / "summary.json")
    if "identity" not in manifest:
        raise RunFolderError(f"{path / 'manifest.json'}: is not a manifest of a run")
    config = manifest.get("config", {})
    job: Job = "grpo" if "grpo" in config else "distill" if "distill" in config else "eval"
    last = _last_line(path / "metrics.jsonl")
    found = _evaluation(config, summary, last) if job == "eval" else _training(path, job, config, summary, last)
    files = {file.name: file.stat() for file in path.iterdir() if file.is_file()}
    return RunInfo(
        path=path,
        job=job,
        status=_status(path, summary, found[0]),
        model=config.get("model", {}).get("name", "?"),
        data=config.get("data", {}).get("source", "?"),
        done=found[0],
        planned=found[1],
        accuracy=found[2],
        interval_95=found[3],
        created=manifest.get("created", ""),
        changed=max(file.st_mtime for name, file in files.items() if name not in WRITTEN_LATER),
        size_bytes=sum(file.stat().st_size for file in path.rglob("*") if file.is_file()),
        manifest=manifest,
        summary=summary,
    )


def evaluation_journals(folder: Path) -> dict[int, Path]:
    """The samples of a training run's finished evaluations, by step and in their order."""
    steps = sorted({row["step"] for row in read_steps(folder / "evaluations.jsonl")})
    paths = {step: folder / "evaluations" / f"step_{step:06d}.jsonl" for step in steps}
    return {step: path for step, path in paths.items() if path.exists()}


def is_live(path: Path) -> bool:
    """Whether a process on this machine, or on one that shares its locks, is at work in the run folder."""
    try:
        with (path / "LOCK").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


_Found = tuple[int, int | None, float | None, tuple[float, float] | None]
"""Done, planned, accuracy, and its interval."""


def _evaluation(config: dict[str, Any], summary: dict[str, Any], last: dict[str, Any]) -> _Found:
    done = last.get("progress/done", summary.get("n", 0))
    if summary.get("n", -1) >= done:
        interval = summary.get("interval_95")
        return summary["n"], summary.get("planned"), summary.get("accuracy"), tuple(interval) if interval else None
    return done, last.get("progress/total"), last.get("eval/accuracy"), None


def _training(path: Path, job: str, config: dict[str, Any], summary: dict[str, Any], last: dict[str, Any]) -> _Found:
    done = max(last.get("step", 0), summary.get("done", 0))
    evaluations = read_steps(path / "evaluations.jsonl")
    found = evaluations[-1] if evaluations else {}
    interval = found.get("interval_95")
    planned = summary.get("steps") or config.get(job, {}).get("steps")
    return done, planned, found.get("accuracy"), tuple(interval) if interval else None


def _status(path: Path, summary: dict[str, Any], done: int) -> str:
    if is_live(path):
        return "running"
    known = summary.get("n", summary.get("done", -1))
    return summary.get("status", "interrupted") if known >= done else "interrupted"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _last_line(path: Path) -> dict[str, Any]:
    """The last whole line of a file of JSON lines; empty where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            lines = file.read().split(b"\n")[:-1]
        return json.loads(lines[-1]) if lines else {}
    except (OSError, ValueError):
        return {}
