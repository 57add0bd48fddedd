"""Length-prefixed JSON messages over a pipe: the language between a grading process and its child.

JSON rather than pickle, because the child handles text that a model wrote: whatever happens to it, it cannot make its
parent execute anything.
"""

import fcntl
import json
import os
import select
import struct
import time
from typing import Any

HEADER = struct.Struct(">I")
MAX_MESSAGE = 1 << 26
CHUNK = 1 << 16


class ChannelClosed(Exception):
    """The other side has closed its end, most likely because it died."""


class DeadlineExceeded(Exception):
    """The other side did not take or send a message in time."""


def encode(message: Any) -> bytes:
    """The bytes that carry a message."""
    body = json.dumps(message).encode()
    return HEADER.pack(len(body)) + body


def capacity(fd: int) -> int:
    """Bytes that a pipe holds before a writer has to wait; what POSIX promises where the system does not say."""
    return fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ) if hasattr(fcntl, "F_GETPIPE_SZ") else select.PIPE_BUF


class Channel:
    """One end of a pair of pipes. With a deadline both directions are bounded: a stopped process reads nothing."""

    def __init__(self, read_fd: int, write_fd: int, *, blocking: bool) -> None:
        self.read_fd = read_fd
        self.write_fd = write_fd
        self._buffer = bytearray()
        os.set_blocking(read_fd, blocking)
        os.set_blocking(write_fd, blocking)

    def send(self, message: Any, deadline: float | None = None) -> None:
        """Raises `ChannelClosed` and, past `deadline` (`time.monotonic()`), `DeadlineExceeded`."""
        self.send_bytes(encode(message), deadline)

    def send_bytes(self, encoded: bytes, deadline: float | None = None) -> None:
        """Sends what `encode` made of a message; raises as `send` does."""
        rest = memoryview(encoded)
        while rest:
            self._wait(self.write_fd, select.POLLOUT, deadline)
            try:
                rest = rest[os.write(self.write_fd, rest) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise ChannelClosed from None

    def receive(self, deadline: float | None = None) -> Any:
        """The next message. Raises as `send` does, and `ChannelClosed` for bytes that are no message."""
        (length,) = HEADER.unpack(self._read(HEADER.size, deadline))
        if length > MAX_MESSAGE:
            raise ChannelClosed("not a message")
        try:
            return json.loads(self._read(length, deadline))
        except ValueError:
            raise ChannelClosed("not a message") from None

    def _read(self, length: int, deadline: float | None) -> bytes:
        """The next `length` bytes. What has arrived behind them waits in the buffer, so that several short messages
        cost one call."""
        while len(self._buffer) < length:
            self._wait(self.read_fd, select.POLLIN, deadline)
            try:
                part = os.read(self.read_fd, CHUNK)
            except BlockingIOError:
                continue
            except ConnectionResetError:
                raise ChannelClosed from None
            if not part:
                raise ChannelClosed
            self._buffer += part
        taken = bytes(self._buffer[:length])
        del self._buffer[:length]
        return taken

    def _wait(self, fd: int, event: int, deadline: float | None) -> None:
        if deadline is None:
            return
        poll = select.poll()
        poll.register(fd, event)
        # What is there counts also after the deadline: this process may have been stopped, and the other was in time.
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise DeadlineExceeded
