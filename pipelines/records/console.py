"""What a person sees while a run works: notices, and one line of progress."""

import sys
import time
from typing import TextIO

PLAIN_INTERVAL_S = 15.0
LIVE_INTERVAL_S = 0.5


class Console:
    """Writes to standard error, so that standard output holds the result alone.

    On a terminal the progress line is rewritten in place; elsewhere (a job's log) it is a plain line now and then.
    """

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._quiet = quiet
        self._last = float("-inf")
        self._open_line = False

    def say(self, text: str) -> None:
        if not self._quiet:
            self._write(text)

    def warn(self, text: str) -> None:
        self._write(f"warning: {text}")

    def fail(self, text: str) -> None:
        self._write(f"error: {text}")

    def progress(self, text: str, *, force: bool = False) -> None:
        """Show `text` if the last one is old enough."""
        now = time.monotonic()
        if self._quiet or (not force and now - self._last < (LIVE_INTERVAL_S if self._live else PLAIN_INTERVAL_S)):
            return
        self._last = now
        if self._live:
            self._stream.write(f"\r\033[K{text}")
            self._stream.flush()
            self._open_line = True
        else:
            self._write(text)

    def _write(self, text: str) -> None:
        if self._open_line:
            self._stream.write("\n")
            self._open_line = False
        print(text, file=self._stream, flush=True)
