"""One killable child, its deadline, and its replacement."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from grading.channel import Channel, ChannelClosed, DeadlineExceeded, capacity, encode
from grading.limits import MEMORY_EXIT, GradingLimits

logger = logging.getLogger(__name__)

PACKAGE_ROOT = Path(__file__).resolve().parent.parent
GRACE_S = 1.0

Request = dict[str, Any]
Reply = dict[str, Any]
Ask = Callable[[Request], Reply]


class GraderBroken(RuntimeError):
    """The child cannot be started, or fails its test. Nothing that it says can be trusted."""


@dataclass
class Counters:
    """What happened to the children so far. `restarts` counts all replacements, planned ones (`recycled`) included."""

    items: int = 0
    timeouts: int = 0
    crashes: int = 0
    retries: int = 0
    faults: int = 0
    restarts: int = 0
    recycled: int = 0


@dataclass(frozen=True, slots=True)
class Program:
    """What a child runs: `python -m module` with the parent's process id, the memory limit in MiB, the deadline in
    seconds, and `arguments`.

    `paths` is where it may import from, beside this package. `errors` says what becomes of its standard error: kept for
    the report of its death, or passed on to the parent's.
    """

    module: str
    arguments: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    errors: Literal["kept", "passed on"] = "kept"


class Supervisor:
    """Sends requests to a child process, one reply each.

    Usable from any thread; calls are serialised. The child is replaced when it exceeds the deadline, crashes, has
    answered `recycle_after` requests or has grown. A request that ended its child is tried once more in a fresh one,
    because something else may have ended it; so is one whose child somebody stopped. One that runs into the deadline is
    not: a second try would only double the time that a poisonous request costs.
    """

    def __init__(self, program: Program, limits: GradingLimits, test: Callable[[Ask], None]) -> None:
        """Starts a child and lets `test` ask it what every new child has to be asked.

        Raises `GraderBroken` if the child does not start, or `test` does.
        """
        self.limits = limits
        self.counters = Counters()
        self._program = program
        self._test = test
        self._lock = threading.RLock()
        self._closed = False
        self._child: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._served = 0
        self._first_rss_kb = 0
        self._rss_kb = 0
        self._window = 0
        self._start()

    @property
    def pid(self) -> int | None:
        """The child's process id; None between a child's end and the next request."""
        return self._child.pid if self._child else None

    @property
    def rss_kb(self) -> int:
        """Memory that the child used after its last reply, in KiB."""
        return self._rss_kb

    def close(self) -> None:
        """Ends the child. Further calls raise `ValueError`; closing twice does nothing."""
        with self._lock:
            self._kill()
            self._closed = True

    def replies(self, requests: Sequence[Request]) -> list[Reply]:
        """The child's reply to each request, in order, or `failure` (`timeout`, `crash`, `fault`) with a `reason`.

        Raises `GraderBroken` if a replacement child does not work, and `ValueError` after `close()`.

        Requests are sent ahead of the replies, so that the child need not wait for its parent between two of them. A
        failure is that of the first request without a reply; the ones behind it are sent again.
        """
        messages = [encode({**request, "key": place}) for place, request in enumerate(requests)]
        replies: list[Reply] = []
        attempts = 0
        with self._lock:
            flight: deque[int] = deque()  # sizes of the messages that are on their way
            while len(replies) < len(messages):
                if self._closed:
                    raise ValueError("the process is closed")
                if self._child is None or (not flight and self._is_worn(0)):
                    self._replace()
                    flight.clear()
                try:
                    reply = self._next_reply(messages, len(replies), flight)
                except BaseException:  # Ctrl-C: the child would answer the rest to whoever asks next
                    self._kill()
                    raise
                if reply.get("failure") == "crash" and attempts == 0:
                    attempts, self.counters.retries = 1, self.counters.retries + 1
                    continue
                attempts = 0
                self.counters.items += 1
                replies.append(reply)
        return replies

    def _next_reply(self, messages: Sequence[bytes], first: int, flight: deque[int]) -> Reply:
        """The reply to message `first`, after sending as many as may be on their way.

        A child that fails is ended and not yet replaced, so that a timeout is reported at the deadline.
        """
        assert self._channel is not None
        deadline = time.monotonic() + self.limits.deadline_s
        try:
            while first + len(flight) < len(messages) and not (flight and self._is_worn(len(flight))):
                message = messages[first + len(flight)]
                if flight and sum(flight) + len(message) > self._window:
                    break
                self._channel.send_bytes(message, deadline)
                flight.append(len(message))
            reply = self._receive(deadline)
            if reply.pop("key", None) != first:
                raise ChannelClosed("a reply to another request")
        except DeadlineExceeded:
            if self._is_stopped():
                self.counters.crashes += 1
                self._kill()
                return {"failure": "crash", "reason": "the child was stopped from outside (SIGSTOP)"}
            self.counters.timeouts += 1
            self._kill()
            return {"failure": "timeout", "reason": f"no answer within {self.limits.deadline_s:g} s"}
        except ChannelClosed:
            self.counters.crashes += 1
            reason = self._death()
            self._kill()
            return {"failure": "crash", "reason": reason}
        flight.popleft()
        if "fault" in reply:
            self.counters.faults += 1
            return {"failure": "fault", "reason": reply["fault"]}
        return reply

    def _replace(self) -> None:
        """A fresh child in the place of one that has ended or is worn."""
        if self._child is not None:
            self.counters.recycled += 1
            self._kill()
        self.counters.restarts += 1
        self._start()

    def _receive(self, deadline: float) -> Reply:
        assert self._channel is not None
        reply: Reply = self._channel.receive(deadline)
        self._served += 1
        self._rss_kb = int(reply.pop("rss_kb", 0))
        return reply

    def _is_worn(self, under_way: int) -> bool:
        """Whether the child should get no more requests than the ones under way."""
        grown_kb = self._rss_kb - self._first_rss_kb
        return self._served + under_way >= self.limits.recycle_after or grown_kb > self.limits.memory_mb * 1024 // 2

    def _start(self) -> None:
        program, limits = self._program, self.limits
        arguments = [str(os.getpid()), str(limits.memory_mb), str(limits.deadline_s), *program.arguments]
        paths = [str(PACKAGE_ROOT), *program.paths, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONDONTWRITEBYTECODE": "1",  # a grading child may not write files
        }
        try:
            # -P: the working directory may hold anything, so nothing is imported from it unless it is among the paths.
            # A session of its own keeps the terminal's Ctrl-C away from the child, and what it starts ends with it.
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-W", "ignore", "-m", program.module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if program.errors == "kept" else None,
                env=environment,
                start_new_session=True,
            )
        except OSError as fault:
            raise GraderBroken(f"{self._program.module} cannot be started: {fault}") from fault
        assert self._child.stdin and self._child.stdout
        self._channel = Channel(self._child.stdout.fileno(), self._child.stdin.fileno(), blocking=False)
        # Half a pipe, so that sending never waits for a child that waits for its replies to be read.
        self._window = capacity(self._child.stdin.fileno()) // 2
        try:
            self._test(self._ask)
        except GraderBroken:
            self._kill()
            raise
        self._served = 0
        self._first_rss_kb = self._rss_kb

    def _ask(self, request: Request) -> Reply:
        """The reply to a request of the test, for which there is as much time as for the start."""
        assert self._channel is not None
        try:
            deadline = time.monotonic() + self.limits.start_deadline_s
            self._channel.send(request, deadline)
            return self._receive(deadline)
        except (ChannelClosed, DeadlineExceeded) as fault:
            silent = isinstance(fault, DeadlineExceeded)
            reason = f"silent for {self.limits.start_deadline_s:g} s" if silent else self._death()
            raise GraderBroken(f"{self._program.module} did not start: {reason}") from fault

    def _kill(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()

    def _is_stopped(self) -> bool:
        """Whether the child does not run because of a signal: then its silence says nothing about the request."""
        assert self._child is not None
        try:
            stat = Path(f"/proc/{self._child.pid}/stat").read_text()
        except OSError:  # gone, or another system than Linux
            return False
        return stat.rpartition(")")[2].split()[0] in ("T", "t")

    def _death(self) -> str:
        """How the child ended, with the last line it wrote to standard error."""
        child = self._child
        assert child is not None
        try:
            code = child.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            return "the child closed its pipe"
        if code == MEMORY_EXIT:
            return f"out of memory ({self.limits.memory_mb} MB)"
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        last_line = _last_line(child.stderr) if child.stderr else ""
        logger.warning("%s ended: %s %s", self._program.module, how, last_line)
        return f"the child ended: {how}" + (f": {last_line}" if last_line else "")


def _last_line(stream: IO[bytes]) -> str:
    os.set_blocking(stream.fileno(), False)
    return (stream.read() or b"").decode(errors="replace").strip().rpartition("\n")[2][:300]
