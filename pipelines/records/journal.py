"""The record of what is finished: append-only JSON lines that survive any death of the writer.

A sample is finished when its line is on the disk. Reading drops a torn last line (the writer was killed in the middle
of it), refuses a broken line anywhere else, and keeps the first of two lines with one key.
"""

import contextlib
import json
import os
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

SCHEMA_VERSION = 1

FAULTS = ("timeout", "error")
"""Verdicts that say something of the machinery and nothing of the model."""

VERDICTS = ("correct", "wrong", "unparsed", *FAULTS)


class JournalError(Exception):
    """The journal cannot be read or written; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One graded completion. `verdict` is one of VERDICTS.

    `first_token_s` and `seconds`, up to the last token, run from its arrival at the engine; the time that it waited there
    for a place is in both. A sample without a token has no first one, and the seconds of its unit; `unit` and `attempt`
    tell which one that was. `policy_version` is that of the weights that its first token came from.
    """

    problem_id: str
    sample_index: int
    prompt_hash: str
    completion: str
    num_tokens: int
    finish_reason: str
    answer: str | None
    gold: str
    verdict: str
    reason: str
    subject: str | None = None
    level: int | None = None
    mean_logprob: float | None = None
    unit: str = ""
    attempt: int = 1
    actor: str = ""
    first_token_s: float | None = None
    seconds: float = 0.0
    policy_version: int = 0
    v: int = SCHEMA_VERSION

    @property
    def key(self) -> tuple[str, int]:
        return (self.problem_id, self.sample_index)


class Record(Protocol):
    """A dataclass of plain values, known by its key."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def key(self) -> Hashable: ...


Kept = TypeVar("Kept", bound=Record)


class JsonLines:
    """An append-only file of JSON lines; `append` returns once the lines are on the disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("ab", buffering=0)

    def append(self, rows: Iterable[dict[str, Any]]) -> None:
        """Write all rows and one fsync.

        Raises JournalError when they cannot be written, the disk being full above all; what was written before stays.
        """
        rest = memoryview(b"".join(json.dumps(row, default=asdict).encode() + b"\n" for row in rows))
        whole = self._file.seek(0, os.SEEK_END)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):  # a half line that stays is dropped by the next reader as well
                self._file.truncate(whole)
            raise JournalError(
                f"{self._path}: cannot write ({error.strerror}); everything recorded before is safe. "
                "Free some space and run the same command again to go on."
            ) from error

    def close(self) -> None:
        self._file.close()


class Journal(Generic[Kept]):
    """The graded samples of a run, in memory and on disk. Only the driver writes."""

    def __init__(self, path: Path, kind: type[Kept]) -> None:
        """Open or create the journal of records of one `kind`, repairing a torn last line.

        Raises JournalError for a broken line that is not the last.
        """
        self.samples: dict[Any, Kept] = {}
        self.duplicates = 0
        self.torn_bytes = _drop_torn_line(path)
        for sample in scan_samples(path, kind):
            self.duplicates += sample.key in self.samples
            self.samples.setdefault(sample.key, sample)
        self._lines = JsonLines(path)

    def append(self, samples: Iterable[Kept]) -> list[Kept]:
        """Record the samples that are new, durably; returns those."""
        fresh = {sample.key: sample for sample in samples if sample.key not in self.samples}
        if fresh:
            self._lines.append(asdict(sample) for sample in fresh.values())
            self.samples |= fresh
        return list(fresh.values())

    def close(self) -> None:
        self._lines.close()


def read_samples(path: Path, kind: type[Kept]) -> dict[Any, Kept]:
    """Return what a journal holds, by key, without touching it; a line that is still being written is left out.

    Raises JournalError for a broken line.
    """
    samples: dict[Any, Kept] = {}
    for sample in scan_samples(path, kind):
        samples.setdefault(sample.key, sample)
    return samples


def _drop_torn_line(path: Path) -> int:
    """Cut what follows the last line end; returns how many bytes were cut."""
    if not path.exists():
        return 0
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        end = size
        while end > 0:
            start = max(0, end - 65536)
            file.seek(start)
            line_end = file.read(end - start).rfind(b"\n")
            if line_end >= 0:
                end = start + line_end + 1
                break
            end = start
        if end < size:
            file.truncate(end)
            os.fsync(file.fileno())
        return size - end


def scan_samples(path: Path, kind: type[Kept]) -> Iterator[Kept]:
    """Yield the whole lines of a journal one after the other, those with a key that was there before as well; nothing
    where there is no file. Raises JournalError for a broken line.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield kind(**json.loads(line))
            except (ValueError, TypeError) as error:
                raise JournalError(
                    f"{path}:{number}: this line of the journal is broken ({error}). It was not cut off by a crash, so "
                    "nothing is guessed: repair or delete the line (its sample is then made again), or use another run.dir."
                ) from error
