"""SIGTERM and Ctrl-C end a run in good order; a second one ends it at once."""

import contextlib
import os
import signal
from collections.abc import Iterator
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

    @contextlib.contextmanager
    def remembering(self) -> Iterator[None]:
        """What arrives in this block is remembered whoever handles it. Ray's handler raises, and an exception that is
        raised inside a callback (of a lock, of a finaliser) is printed and forgotten."""
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        os.set_blocking(write_end, False)
        before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            with contextlib.suppress(BlockingIOError):
                for number in os.read(read_end, 64):
                    if self.requested is None and number in _SIGNALS:
                        self.requested = signal.Signals(number).name
            os.close(read_end)
            os.close(write_end)

    def __call__(self) -> bool:
        return self.requested is not None

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.requested is not None:
            os._exit(ExitCode.PREEMPTED)
        self.requested = signal.Signals(number).name
        if self._immediate:
            raise Preempted
