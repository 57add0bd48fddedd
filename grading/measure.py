"""What grading costs on this machine with any number of workers, and what stays behind afterwards."""

import queue
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from grading.limits import GradingItem, GradingLimits
from grading.process import GradingProcess
from grading.verdict import Verdict

BATCH = 64


@dataclass(frozen=True)
class PoolMeasurement:
    """`verdicts` in the order of the items; `seconds` of wall clock without the start of the workers; `rss_kb` and
    `first_rss_kb` of every worker's child at the end and after its first batch; `descriptors_left` and `children_left`
    are what the run did not close."""

    verdicts: list[Verdict]
    seconds: float
    outcomes: Counter[str]
    restarts: int
    first_rss_kb: list[int]
    rss_kb: list[int]
    descriptors_left: int
    children_left: int

    @property
    def items_per_s(self) -> float:
        return len(self.verdicts) / self.seconds


def measure_pool(items: Sequence[GradingItem], workers: int, limits: GradingLimits | None = None) -> PoolMeasurement:
    """Grades `items` with so many grading processes, each driven by a thread that takes a batch at a time.

    Raises `GraderBroken` if a worker cannot be started.
    """
    descriptors = open_descriptors()
    processes = [GradingProcess(limits) for _ in range(workers)]
    batches: queue.SimpleQueue[int] = queue.SimpleQueue()
    for start in range(0, len(items), BATCH):
        batches.put(start)
    verdicts: dict[int, list[Verdict]] = {}
    first_rss_kb = [0] * workers

    def work(index: int) -> None:
        while True:
            try:
                start = batches.get_nowait()
            except queue.Empty:
                return
            verdicts[start] = processes[index].grade_batch(items[start : start + BATCH])
            first_rss_kb[index] = first_rss_kb[index] or processes[index].rss_kb

    threads = [threading.Thread(target=work, args=(index,)) for index in range(workers)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    in_order = [verdict for start in sorted(verdicts) for verdict in verdicts[start]]
    pids = [process.pid for process in processes]
    rss_kb = [process.rss_kb for process in processes]
    for process in processes:
        process.close()
    return PoolMeasurement(
        verdicts=in_order,
        seconds=seconds,
        outcomes=Counter(verdict.outcome.value for verdict in in_order),
        restarts=sum(process.counters.restarts for process in processes),
        first_rss_kb=first_rss_kb,
        rss_kb=rss_kb,
        descriptors_left=len(open_descriptors() - descriptors),
        children_left=sum(pid is not None and Path(f"/proc/{pid}").exists() for pid in pids),
    )


def open_descriptors() -> set[tuple[str, str]]:
    """Open file descriptors of this process, each with what it is of; none where the system does not list them."""
    found = set()
    folder = Path("/proc/self/fd")
    for link in folder.iterdir() if folder.exists() else ():
        with suppress(OSError):  # that of the listing itself is closed by now
            found.add((link.name, str(link.readlink())))
    return found
