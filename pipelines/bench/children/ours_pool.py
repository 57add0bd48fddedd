"""A pool of grading actors on a private Ray, driven as an evaluation drives it: `python -m … SPEC.json`."""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grading import GradingItem, Verdict
from pipelines.config import EvalConfig
from pipelines.config.schema import GradingConfig
from pipelines.dispatch.connect import connected
from pipelines.dispatch.fleet import Inbox
from pipelines.dispatch.launch import grading_pool
from pipelines.dispatch.loop import events
from pipelines.dispatch.pool import WorkPool
from pipelines.dispatch.preflight import Plan
from pipelines.dispatch.signals import StopFlag
from pipelines.dispatch.work import FatalError, Finished, GivenUp, Unit

UNIT = 256
"""Pairs that go to a worker at once: many, so that the process that hands them out needs no core of its own."""


@dataclass(frozen=True, slots=True)
class Made:
    """A completion as the pool wants it."""

    grading_item: GradingItem


def measure(spec: dict[str, Any]) -> dict[str, Any]:
    """Start Ray and the workers, then grade the pairs once."""
    workers = spec["workers"]
    config = EvalConfig(grading=GradingConfig(num_workers=workers))
    plan = Plan(0, 0.0, 1, workers, config.grading.cpus_per_worker)
    items = [Made(GradingItem(completion, gold)) for completion, gold in spec["pairs"]]
    with connected(config.cluster, workers * config.grading.cpus_per_worker, StopFlag()):
        inbox = Inbox()
        pool = grading_pool(config, plan, inbox)
        try:
            graded(pool, inbox, items[:UNIT], until_ready=workers)
            start, cpu = time.perf_counter(), time.process_time()
            verdicts = graded(pool, inbox, items)
            seconds, driver_cpu_s = time.perf_counter() - start, time.process_time() - cpu
        finally:
            pool.close()
    return {"correct": [verdict.correct for verdict in verdicts], "seconds": seconds, "driver_cpu_s": driver_cpu_s}


def graded(pool: WorkPool, inbox: Inbox, items: Sequence[Made], until_ready: int = 0) -> list[Verdict]:
    """Verdicts in the order of `items`, once as many workers as `until_ready` are there."""
    starts = range(0, len(items), UNIT)
    verdicts: dict[int, list[Verdict]] = {}
    for start in starts:
        pool.add(Unit(str(start), tuple(items[start : start + UNIT])))

    def finished() -> bool:
        return pool.idle and len(pool.reports) >= until_ready

    for event in events([pool], inbox.wait, lambda: False, max_backlog=len(items), finished=finished):
        match event:
            case Finished():
                verdicts[int(event.unit.id)] = event.result
            case GivenUp():
                raise FatalError(event.reason)
    return [verdict for start in starts for verdict in verdicts[start]]


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(Path(sys.argv[1]).read_text()))))
