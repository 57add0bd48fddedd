"""The lowest lines of a terminal, drawn again and again; what others write goes above them."""

import math
import sys
import threading
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.text import Text


class LiveArea:
    """Between two calls the cursor stands below the area, visible, so a process that is killed leaves a sane terminal.

    While an area is open, `sys.stdout` and `sys.stderr` are replaced where they lead to a terminal: whole lines that
    anything prints are written above it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console = Console(file=stream, force_terminal=True, highlight=False, markup=False, emoji=False)
        self._lock = threading.RLock()
        self._lines: list[str] = []
        self._replaced = {name: getattr(sys, name) for name in ("stdout", "stderr")}
        for name, original in self._replaced.items():
            if original.isatty():
                setattr(sys, name, _Above(original, self))

    def draw(self, content: RenderableType) -> None:
        """Replace what the area shows. What is too high for the terminal is cut off at the bottom."""
        size = self._console.size
        with self._console.capture() as drawn:  # one column less, for terminals wrap what fills their last one
            self._console.print(content, width=max(10, size.width - 1), no_wrap=True, overflow="ellipsis", crop=True)
        with self._lock:
            erase = self._erase()
            self._lines = drawn.get().splitlines()[: max(1, size.height - 1)]
            self._write(erase)

    def write_above(self, text: str) -> None:
        """Write lines that stay."""
        with self._lock:
            self._write(f"{self._erase()}{text}\n")

    def close(self) -> None:
        """Take the area away and give the streams back."""
        with self._lock:
            erase, self._lines = self._erase(), []
            self._write(erase)
            for name, original in self._replaced.items():
                replacement = getattr(sys, name)
                if isinstance(replacement, _Above):
                    replacement.flush_rest()
                    setattr(sys, name, original)

    def _write(self, text: str) -> None:
        self._stream.write(text + "".join(f"{line}\n" for line in self._lines))
        self._stream.flush()

    def _erase(self) -> str:
        """Up to the area's first row and clear all below. A terminal that became narrower has wrapped its lines."""
        columns = self._console.size.width
        rows = sum(max(1, math.ceil(cell_len(Text.from_ansi(line).plain) / columns)) for line in self._lines)
        return f"\033[{rows}A\033[J" if rows else ""


class _Above:
    """Stands for a stream that leads to the terminal of a live area."""

    def __init__(self, stream: TextIO, area: LiveArea) -> None:
        self._stream = stream
        self._area = area
        self._rest = ""

    def write(self, text: str) -> int:
        whole, newline, self._rest = (self._rest + text).rpartition("\n")
        if newline:
            self._area.write_above(whole)
        return len(text)

    def flush(self) -> None:
        """Half a line waits for its end."""

    def flush_rest(self) -> None:
        if self._rest:
            self._stream.write(self._rest)
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
