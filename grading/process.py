"""A grading process: one killable child, its deadline, and its replacement."""

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from grading.channel import Channel, ChannelClosed, DeadlineExceeded, capacity, encode
from grading.extract import MAX_CHARACTERS
from grading.limits import MEMORY_EXIT, GradingItem, GradingLimits
from grading.verdict import Outcome, Verdict

logger = logging.getLogger(__name__)

PACKAGE_ROOT = Path(__file__).resolve().parent.parent
GRACE_S = 1.0
SELF_TEST = (  # completion, gold, expected: the last two only pass if the symbolic comparison is reached
    (r"so \boxed{\frac{1}{2}}", "0.5", Outcome.CORRECT),
    (r"so \boxed{(x+1)^2}", "x^2 + 2x + 1", Outcome.CORRECT),
    (r"so \boxed{(x+1)^2}", "x^2 + 1", Outcome.WRONG),
)


class GraderBroken(RuntimeError):
    """The child cannot be started, or grades a known pair wrongly. No verdict of it can be trusted."""


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


def verdict(reply: dict[str, Any]) -> Verdict:
    """The verdict in a child's reply, or the fault of the grader that it reports."""
    if "failure" in reply:
        return Verdict(Outcome.TIMEOUT if reply["failure"] == "timeout" else Outcome.ERROR, reply["reason"])
    return Verdict(Outcome(reply["outcome"]), reply["reason"], reply["answer"], reply["extraction"])


class GradingProcess:
    """Grades batches in a child process.

    Usable from any thread; calls are serialised. The child is replaced when it exceeds the deadline, crashes, has
    graded `recycle_after` items or has grown. An item that ended its child is tried once more in a fresh one, because
    something else may have ended it, and then gets the verdict `error`. An item that runs into the deadline gets the
    verdict `timeout` at once: a second try would only double the time that a poisonous completion costs.
    """

    def __init__(self, limits: GradingLimits | None = None, *, program: str = "grading.child") -> None:
        """Starts the child and tests it. `program` is the module that the child runs.

        Raises `GraderBroken` if it does not start or fails the test.
        """
        self.limits = limits or GradingLimits()
        self.counters = Counters()
        self._program = program
        self._lock = threading.RLock()
        self._closed = False
        self._child: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._served = 0
        self._first_rss_kb = 0
        self._rss_kb = 0
        self._window = 0
        self._start()

    def grade_batch(self, items: Sequence[GradingItem]) -> list[Verdict]:
        """Exactly one verdict an item, in order. Raises `GraderBroken` if a replacement child does not work and
        `ValueError` after `close()`."""
        requests = [
            {"completion": item.completion[-MAX_CHARACTERS:], "gold": item.gold, "lenient": self.limits.lenient}
            for item in items
        ]
        return [verdict(reply) for reply in self._replies(requests)]

    def vote(self, answers: Sequence[str | None]) -> tuple[str | None, float] | None:
        """`majority_vote` in the child; None where it times out or fails."""
        (reply,) = self._replies([{"answers": [answer and answer[:MAX_CHARACTERS] for answer in answers]}])
        return None if "failure" in reply else (reply["answer"], float(reply["share"]))

    @property
    def pid(self) -> int | None:
        """The child's process id; None between a child's end and the next item."""
        return self._child.pid if self._child else None

    @property
    def rss_kb(self) -> int:
        """Memory that the child used after its last item, in KiB."""
        return self._rss_kb

    def close(self) -> None:
        """Ends the child. Further calls raise `ValueError`; closing twice does nothing."""
        with self._lock:
            self._kill()
            self._closed = True

    def __enter__(self) -> "GradingProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _replies(self, requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The child's reply to each request, in order, or `failure` (`timeout`, `crash`, `fault`) with a `reason`.

        Requests are sent ahead of the replies, so that the child need not wait for its parent between two of them. A
        failure is that of the first request without a reply; the ones behind it are sent again.
        """
        replies: list[dict[str, Any]] = []
        attempts = 0
        with self._lock:
            flight: deque[int] = deque()  # sizes of the requests that are on their way
            while len(replies) < len(requests):
                if self._closed:
                    raise ValueError("the grading process is closed")
                if self._child is None or (not flight and self._is_worn(0)):
                    self._replace()
                    flight.clear()
                try:
                    reply = self._next_reply(requests, len(replies), flight)
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

    def _next_reply(self, requests: Sequence[dict[str, Any]], first: int, flight: deque[int]) -> dict[str, Any]:
        """The reply to request `first`, after sending as many as may be on their way.

        A child that fails is ended and not yet replaced, so that a timeout is reported at the deadline.
        """
        assert self._channel is not None
        deadline = time.monotonic() + self.limits.deadline_s
        try:
            while first + len(flight) < len(requests) and not (flight and self._is_worn(len(flight))):
                place = first + len(flight)
                encoded = encode({**requests[place], "key": place})
                if flight and sum(flight) + len(encoded) > self._window:
                    break
                self._channel.send_bytes(encoded, deadline)
                flight.append(len(encoded))
            reply = self._receive(deadline)
            if reply.pop("key", None) != first:
                raise ChannelClosed("a reply to another request")
        except DeadlineExceeded:
            self.counters.timeouts += 1
            self._kill()
            return {"failure": "timeout", "reason": f"no verdict within {self.limits.deadline_s:g} s"}
        except ChannelClosed:
            self.counters.crashes += 1
            reason = self._death()
            self._kill()
            return {"failure": "crash", "reason": reason}
        flight.popleft()
        if "fault" in reply:
            self.counters.faults += 1
            return {"failure": "fault", "reason": f"the grader raised {reply['fault']}"}
        return reply

    def _replace(self) -> None:
        """A fresh child in the place of one that has ended or is worn."""
        if self._child is not None:
            self.counters.recycled += 1
            self._kill()
        self.counters.restarts += 1
        self._start()

    def _receive(self, deadline: float) -> dict[str, Any]:
        assert self._channel is not None
        reply: dict[str, Any] = self._channel.receive(deadline)
        self._served += 1
        self._rss_kb = int(reply.pop("rss_kb", 0))
        return reply

    def _is_worn(self, under_way: int) -> bool:
        """Whether the child should get no more requests than the ones under way."""
        grown_kb = self._rss_kb - self._first_rss_kb
        return self._served + under_way >= self.limits.recycle_after or grown_kb > self.limits.memory_mb * 1024 // 2

    def _start(self) -> None:
        limits = self.limits
        arguments = [str(os.getpid()), str(limits.memory_mb), str(limits.deadline_s)]
        paths = [str(PACKAGE_ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONDONTWRITEBYTECODE": "1",  # it may not write files
        }
        try:
            # -P: the working directory may hold anything, so nothing is imported from it. A session of its own keeps
            # the terminal's Ctrl-C away from the child.
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-W", "ignore", "-m", self._program, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except OSError as fault:
            raise GraderBroken(f"the grading child cannot be started: {fault}") from fault
        assert self._child.stdin and self._child.stdout
        self._channel = Channel(self._child.stdout.fileno(), self._child.stdin.fileno(), blocking=False)
        # Half a pipe, so that sending never waits for a child that waits for its replies to be read.
        self._window = capacity(self._child.stdin.fileno()) // 2
        self._self_test()
        self._served = 0
        self._first_rss_kb = self._rss_kb

    def _self_test(self) -> None:
        """Every child has to grade known pairs first: a broken one would score all completions alike."""
        assert self._channel is not None
        for completion, gold, expected in SELF_TEST:
            request = {"completion": completion, "gold": gold, "lenient": False}
            try:
                deadline = time.monotonic() + self.limits.start_deadline_s
                self._channel.send(request, deadline)
                reply = self._receive(deadline)
            except (ChannelClosed, DeadlineExceeded) as fault:
                silent = isinstance(fault, DeadlineExceeded)
                reason = f"silent for {self.limits.start_deadline_s:g} s" if silent else self._death()
                self._kill()
                raise GraderBroken(f"the grading child did not start: {reason}") from fault
            if reply.get("outcome") != expected:
                self._kill()
                found = reply.get("outcome") or reply.get("fault")
                raise GraderBroken(
                    f"the grader fails its start-up test: {completion!r} against {gold!r} gave {found}, not {expected}; "
                    "check the installed sympy version"
                )

    def _kill(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()

    def _death(self) -> str:
        """How the child ended, with the last line it wrote to standard error."""
        child = self._child
        assert child is not None and child.stderr is not None
        try:
            code = child.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            return "the grading child closed its pipe"
        os.set_blocking(child.stderr.fileno(), False)
        written = (child.stderr.read() or b"").decode(errors="replace").strip()
        if code == MEMORY_EXIT:
            return f"out of memory ({self.limits.memory_mb} MB)"
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        last_line = written.rpartition("\n")[2][:300]
        logger.warning("grading child ended: %s %s", how, last_line)
        return f"the grading child ended: {how}" + (f": {last_line}" if last_line else "")
