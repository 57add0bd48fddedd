"""Notices, warnings, and how far the run is: a live view on a terminal, plain lines elsewhere."""

import argparse
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from pipelines.terminal.status import Status

if TYPE_CHECKING:
    from pipelines.terminal.area import LiveArea

PLAIN_INTERVAL_S = 10.0
LIVE_INTERVAL_S = 0.25
EVENTS = 3
"""Notices that the live view repeats."""

_CONTROL = {code: None for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


class Console:
    """Writes to standard error, so that standard output holds the result alone. Any thread may use it.

    On a terminal, `show` keeps a view at its foot until `close`; elsewhere (a job's log, a pipe, TERM=dumb) it writes a
    plain line now and then. `quiet` leaves warnings and errors.
    """

    def __init__(
        self, stream: TextIO | None = None, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._clock = clock
        self.live = not quiet and self._stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
        self._interval_s = LIVE_INTERVAL_S if self.live else PLAIN_INTERVAL_S
        self._last = float("-inf")
        self._events: deque[tuple[float, str]] = deque(maxlen=EVENTS)
        self._lock = threading.RLock()
        self._area: LiveArea | None = None

    def say(self, text: str) -> None:
        if not self._quiet:
            self._write(text)

    def warn(self, text: str) -> None:
        self._write(f"warning: {text}")

    def fail(self, text: str) -> None:
        self._write(f"error: {text}")

    def show(self, status: Callable[[], Status]) -> None:
        """Show how far the run is, unless the last time was a moment ago."""
        now = self._clock()
        with self._lock:
            if self._quiet or now - self._last < self._interval_s:
                return
            self._last = now
            if self.live:
                self._draw(status(), now)
            else:
                print(status().line().translate(_CONTROL), file=self._stream, flush=True)

    def close(self) -> None:
        """Take the view away; what is written later is plain."""
        with self._lock:
            if self._area is not None:
                self._area.close()
            self._area = None

    def _draw(self, status: Status, now: float) -> None:
        from pipelines.terminal.area import LiveArea  # late: most commands draw nothing
        from pipelines.terminal.view import view

        if self._area is None:
            self._area = LiveArea(self._stream)
        self._area.draw(view(status, [(now - then, text) for then, text in self._events]))

    def _write(self, text: str) -> None:
        """Without control characters, which a model's or a user's text may hold."""
        clean = text.translate(_CONTROL)
        with self._lock:
            self._events.append((self._clock(), clean.partition("\n")[0]))
            if self._area is not None:
                self._area.write_above(clean)
            else:
                print(clean, file=self._stream, flush=True)


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add `--json` and `--quiet`, which every command that reads runs has."""
    parser.add_argument("--json", action="store_true", help="print the result as one JSON line on standard output")
    parser.add_argument("--quiet", action="store_true", help="no notices, only warnings and errors")
