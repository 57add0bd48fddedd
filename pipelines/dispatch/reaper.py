"""Ends what a private Ray leaves behind.

When its driver is killed, Ray's processes notice it by themselves, but for the agents of a node: those wait up to a minute
for a server that is gone. A small process of our own outlives the driver for some seconds and ends the rest. It is this
file, run as a program; it loads nothing.
"""

import contextlib
import os
import select
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

LOOK_S = 0.25
"""Between two looks for the folder of a Ray that starts."""


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


def _processes() -> list[str]:
    """Folders of all processes of this machine."""
    return [f"/proc/{name}" for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208  (pathlib would have to be loaded)


def _read(path: str) -> bytes:
    """The file's content; nothing where the process has ended or is not ours."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""


def _open_files(process: str) -> list[str]:
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir(f"{process}/fd"):  # noqa: PTH208
            with contextlib.suppress(OSError):
                found.append(os.readlink(f"{process}/fd/{name}"))  # noqa: PTH115
    return found


def _marked(mark: str) -> list[str]:
    entry = f"{MARK}={mark}".encode()
    return [process for process in _processes() if entry in _read(f"{process}/environ").split(b"\0")]


def _session_folder(mark: str) -> str | None:
    """Where the marked Ray keeps its logs and sockets."""
    for process in _marked(mark):
        for path in _open_files(process):
            before, logs, _ = path.partition("/logs/")
            if logs and os.path.basename(before).startswith("session_"):  # noqa: PTH119
                return before
    return None


def _left(mark: str, folder: str | None) -> list[str]:
    """What is marked, and Ray's agents: their titles are written over their environment, so they are known by their logs."""
    found = set(_marked(mark))
    if folder is not None:
        agents = [process for process in _processes() if _read(f"{process}/cmdline").startswith(b"ray::")]
        found |= {each for each in agents if any(path.startswith(f"{folder}/") for path in _open_files(each))}
    return sorted(found)


def _reap(mark: str) -> None:
    folder = None
    # Until the other end is closed, by `release` or because its process is gone. By then Ray's server may be gone as well.
    while not select.select([sys.stdin], [], [], LOOK_S if folder is None else None)[0]:
        folder = _session_folder(mark)
    folder = folder or _session_folder(mark)
    deadline = time.monotonic() + PATIENCE_S
    while _left(mark, folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    for _ in range(3):  # one may have started another meanwhile
        for process in _left(mark, folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process.removeprefix("/proc/")), signal.SIGKILL)


if __name__ == "__main__" and os.path.isdir("/proc"):  # noqa: PTH112
    _reap(sys.argv[1])
