"""Runs the real command in a process of its own, and sees to it that nothing of it stays behind."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "pipelines"]
SAMPLED = ["sampling.temperature=0.2"]
"""The random model's next token then has an entropy of about 1.2 nats, as that of a real one. Over its flat
distribution at 1.0, rounding that differs between batch shapes would change a token now and then."""


_MARK = "MATHLETE_TEST_RUN"
"""In the environment of every process of a run, Ray's own included."""
GONE_S = 10.0


@dataclass
class Result:
    code: int
    out: str
    err: str
    seconds: float

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out.splitlines()[-1])


def mathlete(*words: str, job: str = "eval", timeout: float = 240, env: dict[str, str] | None = None) -> Result:
    start = time.monotonic()
    mark = uuid.uuid4().hex
    done = subprocess.run(
        [*COMMAND, job, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **(env or {}), _MARK: mark},
    )
    seconds = time.monotonic() - start
    assert_gone(mark)
    return Result(done.returncode, done.stdout, done.stderr, seconds)


def processes_of(mark: str) -> dict[int, str]:
    """Command lines of the living processes of a run."""
    found = {}
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and f"{_MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
        except OSError:  # it ended meanwhile
            continue
    return {pid: line for pid, line in found.items() if line}  # a zombie has none


def assert_gone(mark: str, ended: float | None = None) -> None:
    """No process of the run is alive ten seconds after it `ended` (monotonic; now if it is not given)."""
    deadline = (time.monotonic() if ended is None else ended) + GONE_S
    while left := processes_of(mark):
        assert time.monotonic() < deadline, f"still alive {GONE_S:g} s after the end of their run: {left}"
        time.sleep(0.05)


class Started:
    """A command on its way, in a session of its own as under a terminal, with its output in a file. `every` has all that
    were ever started, for what is checked at the end of each test."""

    every: ClassVar[list["Started"]] = []

    def __init__(self, folder: Path, *words: str, job: str = "eval", journal: str = "samples.jsonl") -> None:
        self.folder = folder
        self._journal = folder / journal
        self.mark = uuid.uuid4().hex
        self._ended: float | None = None
        self._log = folder.with_suffix(".log").open("w+")
        self.process = subprocess.Popen(
            [*COMMAND, job, *words, f"run.dir={folder}"],
            cwd=ROOT,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, _MARK: self.mark},
        )
        Started.every.append(self)

    def output(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def wait_until(self, condition: Callable[[], Any], seconds: float = 120) -> Any:
        """The first true value of `condition`; fails when the command ends or time is up before."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if value := condition():
                return value
            assert self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.output()}"
            time.sleep(0.02)
        raise AssertionError(f"not within {seconds} s:\n{self.output()}")

    def journal_lines(self) -> int:
        return self._journal.read_bytes().count(b"\n") if self._journal.exists() else 0

    def events(self, kind: str) -> list[dict[str, Any]]:
        path = self.folder / "events.jsonl"
        if not path.exists():
            return []
        whole = path.read_text().rpartition("\n")[0]
        return [event for line in whole.splitlines() if (event := json.loads(line))["kind"] == kind]

    def pids(self, pool: str) -> list[int]:
        """Of the workers that were ever ready."""
        ready = [event for event in self.events("ready") if event["worker"].startswith(pool)]
        return [event["report"]["placement"]["pid"] for event in ready]

    def generator_pids(self) -> list[int]:
        return self.pids("generator")

    def finish(self, seconds: float = 240) -> int:
        code = self.process.wait(timeout=seconds)
        self._ended = time.monotonic()
        return code

    def assert_gone(self) -> None:
        """As the function; kills what a test that failed has left running."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        assert_gone(self.mark, self._ended)


def read_samples(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]


def texts(folder: Path) -> dict[tuple[str, int], str]:
    """Completion by key; fails when a key is there twice."""
    rows = read_samples(folder)
    found = {(row["problem_id"], row["sample_index"]): row["completion"] for row in rows}
    assert len(found) == len(rows)
    return found
