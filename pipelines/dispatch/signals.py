"""SIGTERM and Ctrl-C end a run in good order; a second one ends it at once."""

import os
import signal
from types import FrameType

from pipelines.exit_codes import ExitCode

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Preempted(SystemExit):
    """A stop was asked for while there was nothing to finish in good order."""

    def __init__(self) -> None:
        super().__init__(ExitCode.PREEMPTED)


class StopFlag:
    """Remembers that a stop was asked for. `install` again after `ray.init`, which puts its own handler in place."""

    def __init__(self) -> None:
        self.requested: str | None = None
        self._immediate = True

    def install(self, *, immediate: bool) -> None:
        """With `immediate`, a signal raises Preempted where the program stands; otherwise it only sets the flag."""
        self._immediate = immediate
        for number in _SIGNALS:
            signal.signal(number, self._receive)
        if immediate and self.requested:
            raise Preempted

    def __call__(self) -> bool:
        return self.requested is not None

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.requested is not None:
            os._exit(ExitCode.PREEMPTED)
        self.requested = signal.Signals(number).name
        if self._immediate:
            raise Preempted
