"""Ends what a private Ray leaves behind.

When its driver is killed, Ray's processes notice it by themselves, but for the agents of a node: those wait up to a minute
for a server that is gone. A small process of our own outlives the driver for some seconds and ends the rest. It is this
file, run as a program; it loads nothing.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator

MARK = "MATHLETE_PRIVATE_RAY"
"""In the environment of every process that is started inside `marked`, and of those that these start."""

PATIENCE_S = 5.0
"""That they have to end by themselves: Ray's own shutdown takes as long."""


class Reaper:
    """Waits until this process is gone or `release` is called, however that comes about; then ends all marked processes
    that are left after PATIENCE_S."""

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex
        # A session of its own, so that the signals of a terminal or a job do not end it first.
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-E", __file__, self._mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @contextlib.contextmanager
    def marked(self) -> Iterator[None]:
        """What is started in this block is to be ended; what is started later is not."""
        os.environ[MARK] = self._mark
        try:
            yield
        finally:
            os.environ.pop(MARK, None)

    def release(self) -> None:
        """Nobody needs the marked processes any more; returns at once."""
        if self._process.stdin is not None:
            self._process.stdin.close()


def _marked(mark: str) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208  (pathlib would have to be loaded)
        try:
            with open(f"/proc/{name}/environ", "rb") as file:  # noqa: PTH123
                if f"{MARK}={mark}".encode() in file.read().split(b"\0"):
                    found.append(int(name))
        except OSError:  # it ended meanwhile, or is not ours
            continue
    return found


def _reap(mark: str) -> None:
    sys.stdin.buffer.read()  # until the other end is closed, by `release` or because its process is gone
    deadline = time.monotonic() + PATIENCE_S
    while _marked(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    for _ in range(3):  # one may have started another meanwhile
        for pid in _marked(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__" and os.path.isdir("/proc"):  # noqa: PTH112
    _reap(sys.argv[1])
