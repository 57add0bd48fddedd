"""The program of a grading child: reads items from its parent, grades them, and protects the machine from itself.

Started as `python -m grading.child PARENT_PID MEMORY_MB DEADLINE_S`. Its parent kills it at the deadline; what stands
here covers the cases where the parent cannot, because it is gone.
"""

import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grading.channel import Channel, ChannelClosed
from grading.guard import refuse_side_effects
from grading.limits import MEMORY_EXIT

RECURSION_LIMIT = 5_000
ORPHAN_CHECK_S = 0.5
STATM = Path("/proc/self/statm")

# What sympy, mpmath or a parser may raise on an expression none of us has thought of. Any other exception ends the
# child, which its parent counts as a crash.
FAULTS: tuple[type[Exception], ...] = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,  # RecursionError and NotImplementedError among them
    TypeError,
    ValueError,
)

Judge = Callable[[dict[str, Any]], dict[str, Any]]


def judge(request: dict[str, Any]) -> dict[str, Any]:
    """Answers one request: a verdict on a completion, or which of several answers are equivalent."""
    # Here and not above: the limits hold before sympy is loaded, and a fault while loading is reported.
    from grading.grade import grade
    from grading.vote import equivalence_classes

    if "answers" in request:
        return {"classes": equivalence_classes(request["answers"])}
    verdict = grade(request["completion"], request["gold"], lenient=request["lenient"])
    return {
        "outcome": verdict.outcome.value,
        "reason": verdict.reason,
        "answer": verdict.answer,
        "extraction": verdict.extraction,
    }


def serve(answer: Judge = judge) -> None:
    """Answers requests until the parent closes the pipe or dies."""
    parent, memory_mb, deadline_s = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    channel = private_channel()
    stay_with(parent)
    limit_memory(memory_mb)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    refuse_side_effects()
    sys.setrecursionlimit(RECURSION_LIMIT)
    answer_requests(channel, answer, 2 * deadline_s)


def answer_requests(channel: Channel, answer: Judge, cpu_s: float) -> None:
    """One reply a request until the channel is closed; `cpu_s` CPU seconds for each."""
    try:
        while True:
            request = channel.receive()
            limit_cpu(cpu_s)
            try:
                reply = answer(request)
            except MemoryError:
                os._exit(MEMORY_EXIT)  # the heap may be damaged; the parent starts a fresh child
            except FAULTS as fault:
                # Only the type: a message may hold a number that takes for ever to print.
                reply = {"fault": f"the grader raised {type(fault).__name__}"}
            channel.send({**reply, "key": request.get("key"), "rss_kb": resident_kb()})
    except ChannelClosed:
        return


def private_channel(output: int | None = None) -> Channel:
    """The pipes to the parent, moved away from the standard streams so that no `print` can break the protocol.

    What is printed goes to the descriptor `output`, or nowhere.
    """
    read_fd, write_fd = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null if output is None else output, 1)
    os.close(null)
    return Channel(read_fd, write_fd, blocking=True)


def stay_with(parent: int) -> None:
    """Ends with the parent, and not by Ctrl-C: that is for the driver, which still wants its verdicts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=exit_when_orphaned, args=(parent,), daemon=True).start()


def exit_when_orphaned(parent: int) -> None:
    """Ends this process once its parent is another one.

    A busy child does not see that its pipe is closed. PR_SET_PDEATHSIG would fire when the parent's *thread* ends, and
    an actor's method runs in a thread of its own. A computation that holds the interpreter lock is ended by its CPU
    limit instead.
    """
    while os.getppid() == parent:
        time.sleep(ORPHAN_CHECK_S)
    os._exit(0)


def resident_kb() -> int:
    """Memory in use. `ru_maxrss` would not do where /proc exists: a child inherits its parent's peak."""
    if not STATM.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(STATM.read_text().split()[1]) * resource.getpagesize() // 1024


def limit_memory(memory_mb: int) -> None:
    """The address space that this process may have, and no core file when it ends for want of more."""
    limit = memory_mb << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def limit_cpu(cpu_s: float) -> None:
    """CPU seconds for one more request, beyond what this process has used so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    seconds = int(usage.ru_utime + usage.ru_stime + cpu_s) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (seconds if hard == resource.RLIM_INFINITY else min(seconds, hard), hard))


if __name__ == "__main__":
    serve()
