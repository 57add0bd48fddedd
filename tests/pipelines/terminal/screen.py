"""A pseudo-terminal with a program on it, and the screen that its output makes."""

import codecs
import fcntl
import math
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[3]
_TOKEN = re.compile(r"\033\[([\d;?]*)([A-Za-z])|([^\033])")

_UNFINISHED = re.compile(r"\033(?:\[[\d;?]*)?$")
"""A control sequence that the next bytes will end."""


class Screen:
    """What stands on a terminal without end, by lines, which it wraps anew when its width changes. Knows what the live
    area uses, and fails for anything else."""

    def __init__(self) -> None:
        self.columns = 0
        self.rows: list[str] = [""]
        self._row = self._column = 0
        self.raw = ""
        self._rest = ""

    def feed(self, text: str) -> None:
        self.raw += text
        text, self._rest = self._rest + text, ""
        if unfinished := _UNFINISHED.search(text):
            text, self._rest = text[: unfinished.start()], unfinished[0]
        assert "\033" not in _TOKEN.sub("", text)
        for numbers, letter, plain in _TOKEN.findall(text):
            if plain:
                self._put(plain)
            elif letter == "A":
                self._up(int(numbers or 1))
            elif letter == "J":
                self.rows[self._row] = self.rows[self._row][: self._column]
                del self.rows[self._row + 1 :]
            else:
                assert letter == "m", f"unexpected control sequence {numbers}{letter}"

    def _up(self, rows: int) -> None:
        """So many rows as they are wrapped; ends at the beginning of a line."""
        while rows > 0:
            self._row -= 1
            rows -= max(1, math.ceil(len(self.rows[self._row]) / self.columns))
        assert rows == 0

    def _put(self, character: str) -> None:
        if character == "\n":
            self._row += 1
            if self._row == len(self.rows):
                self.rows.append("")
        elif character == "\r":
            self._column = 0
        else:
            row = self.rows[self._row].ljust(self._column)
            self.rows[self._row] = row[: self._column] + character + row[self._column + 1 :]
            self._column += 1

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.rows).rstrip()


class Terminal:
    """`command` on a pseudo-terminal of its own, as its controlling one."""

    def __init__(self, command: Sequence[str], *, columns: int = 100, rows: int = 40, **environment: str) -> None:
        self.screen = Screen()
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._master, slave = pty.openpty()
        self.resize(columns, rows)
        env = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**env, "TERM": "xterm-256color", **environment},
            start_new_session=True,
        )
        os.close(slave)

    def resize(self, columns: int, rows: int) -> None:
        self.screen.columns = columns
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_until(self, condition: Callable[[], bool], seconds: float = 120) -> None:
        """Read what the program writes until `condition()`; fails when it ends before, or time is up."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds} s:\n{self.screen.text}"
            assert self._read(1.0) or self.process.poll() is None, f"ended before:\n{self.screen.text}"

    def finish(self, seconds: float = 120) -> int:
        """Read to the end; returns the exit code."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None or self._read(0.0):
            assert time.monotonic() < deadline, f"not within {seconds} s:\n{self.screen.text}"
            self._read(0.1)
        return self.process.returncode

    def settings(self) -> list[object]:
        return termios.tcgetattr(self._master)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other side is closed
            return False
        self.screen.feed(self._decoder.decode(data))
        return bool(data)
