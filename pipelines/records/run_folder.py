"""The folder of a run: one writer at a time, one set of result settings for its whole life."""

import contextlib
import errno
import fcntl
import json
import os
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.records.incidents import IncidentLog
from pipelines.records.journal import Journal, JsonLines, Sample
from pipelines.records.provenance import timestamp
from pipelines.records.votes import Vote
from pipelines.terminal.console import Console

RAY_PACKAGE_FOLDER = "runtime_resources"
"""Ray unpacks a job's working_dir below a folder of this name and deletes it when the job is over."""


class RunFolderError(Exception):
    """The folder cannot serve this run; the text says why and what to do."""


class OtherConfiguration(RunFolderError):
    """The folder holds a run whose results would differ from those of this configuration."""


class RunFolder:
    """Paths and files of one run. Use `open_run_folder`, which holds the lock while the run lives."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.samples_path = path / "samples.jsonl"
        self.manifest_path = path / "manifest.json"
        self.config_path = path / "config.yaml"
        self.summary_path = path / "summary.json"
        self.votes_path = path / "votes.jsonl"
        self.problems_path = path / "problems.jsonl"
        self.events_path = path / "events.jsonl"

    def claim(self, identity: Mapping[str, Any], details: Mapping[str, Any], growing: Collection[str] = ()) -> bool:
        """Write the manifest of a new run, or check that the old one describes the same results.

        `identity` decides what a run finds; `details` (versions, the full configuration) are kept for the record. The
        keys `growing` may have a larger value than before; the manifest then holds that one, the new details and, under
        `grown`, when it came to this.
        Returns whether the folder held this run already.
        Raises OtherConfiguration with the differing keys.
        """
        plain = json.loads(json.dumps(identity))
        if not self.manifest_path.exists():
            if self.samples_path.exists() and self.samples_path.stat().st_size:
                raise RunFolderError(
                    f"{self.path}: holds samples but no manifest.json, so nobody can tell what run they are of. "
                    "Use another run.dir, or move samples.jsonl away."
                )
            self.write_json(self.manifest_path, {"created": timestamp(), "identity": plain, **details})
            return False
        try:
            manifest = json.loads(self.manifest_path.read_text(encoding="utf-8"))
            known = manifest["identity"]
        except (ValueError, KeyError) as error:
            raise RunFolderError(
                f"{self.manifest_path}: is not a manifest of a run ({error}). Use another run.dir."
            ) from error
        changed = [key for key in sorted({*known, *plain}) if known.get(key) != plain.get(key)]
        grown = [key for key in changed if key in growing and _larger(known.get(key), plain.get(key))]
        if refused := [key for key in changed if key not in grown]:
            raise OtherConfiguration(self._refusal(refused, known, plain, growing))
        if grown:
            steps = [{"time": timestamp(), "key": key, "from": known.get(key), "to": plain[key]} for key in grown]
            history = [*manifest.get("grown", []), *steps]
            self.write_json(self.manifest_path, {**manifest, **details, "identity": plain, "grown": history})
        return True

    def _refusal(
        self, keys: Sequence[str], known: Mapping[str, Any], now: Mapping[str, Any], growing: Collection[str]
    ) -> str:
        lines = "\n".join(f"  {key}: {known.get(key)!r} there, {now.get(key)!r} now" for key in keys)
        if all(key in growing for key in keys):
            return (
                f"{self.path}: holds a run with more than that, and leaving out what is recorded would be another result:"
                f"\n{lines}\nPut back the old value or a larger one, or choose a new run.name or run.dir."
            )
        return (
            f"{self.path}: holds a run with other settings, and mixing two would falsify both:\n{lines}\n"
            "Put the old values back to resume it, or choose a new run.name or run.dir."
        )

    def last_summary(self) -> dict[str, Any]:
        """What the last session wrote; empty where there is none that can be read."""
        try:
            return json.loads(self.summary_path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}

    def journal(self) -> Journal[Sample]:
        return Journal(self.samples_path, Sample)

    def votes(self) -> Journal[Vote]:
        return Journal(self.votes_path, Vote)

    def incidents(self, console: Console) -> IncidentLog:
        return IncidentLog(self.events_path, console)

    def metrics(self) -> JsonLines:
        return JsonLines(self.path / "metrics.jsonl")

    def write_json(self, path: Path, content: Mapping[str, Any]) -> None:
        self.write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")

    def write_text(self, path: Path, text: str) -> None:
        """As `write_whole`, for a file of this folder."""
        write_whole(path, text)


def write_whole(path: Path, text: str) -> None:
    """Replace a file whole: a reader never sees half of it, whatever is killed.

    Raises RunFolderError when it cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = "Free some space" if full else "See that its folder is there and may be written to"
        raise RunFolderError(
            f"{path}: cannot write ({error.strerror}). {advice} and run the same command again."
        ) from error


def _larger(known: float | None, now: float | None) -> bool:
    """A manifest that does not know the key yet allows any value."""
    return now is not None and (known is None or now > known)


def resolve_run_folder(name: str, folder: str | None) -> Path:
    """The absolute path of the run folder.

    Raises RunFolderError for a place that Ray deletes after the job.
    """
    path = (Path(folder).expanduser() if folder else Path("runs") / name).resolve()
    if RAY_PACKAGE_FOLDER in path.parts and any(part.startswith("_ray_pkg_") for part in path.parts):
        raise RunFolderError(
            f"{path}: lies in Ray's temporary package folder, which is deleted after the job. "
            "Set run.dir to an absolute path on storage that outlives the job."
        )
    return path


def find_file(name: str, files: Iterable[str]) -> Path | None:
    """The first of `files` in the run folder that `name` means, a path or a name below runs/; None for none."""
    folders = (Path(name).expanduser(), Path("runs") / name)
    paths = (folder / file for folder in folders for file in files)
    return next((path for path in paths if path.is_file()), None)


@contextlib.contextmanager
def open_run_folder(path: Path) -> Iterator[RunFolder]:
    """The run folder, created if need be and locked against a second writer until the block ends.

    The lock is the kernel's (flock), so it goes with its process, however that ends.
    Raises RunFolderError when another live run holds it or the folder cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = (path / "LOCK").open("a+", encoding="utf-8")
    except OSError as error:
        raise RunFolderError(
            f"{path}: cannot be used as run folder ({error.strerror}). Choose another run.dir."
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            raise RunFolderError(
                f"{path}: is in use by a live run ({lock.read().strip() or 'just started'}). "
                "Wait for it, stop it, or choose another run.dir."
            ) from error
        lock.truncate(0)
        lock.write(f"pid {os.getpid()} on {socket.gethostname()} since {timestamp()}\n")
        lock.flush()
        yield RunFolder(path)
