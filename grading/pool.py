"""The grader as a Ray actor on CPUs. Scheduling is the driver's."""

import os
import socket
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import ray

from grading.limits import GradingItem, GradingLimits
from grading.process import GraderBroken, GradingProcess
from grading.verdict import Verdict


class Grader:
    """One grading process with what the driver asks of an actor. `load` comes first."""

    def __init__(self, limits: GradingLimits | None = None) -> None:
        self._limits = limits
        self._started: GradingProcess | None = None

    def load(self) -> dict[str, Any]:
        """Start the process and let it grade known pairs; returns `report()`.

        Apart from the constructor, because an exception here reaches the driver as itself.
        Raises `GraderBroken` if it does not grade them right.
        """
        self._started = GradingProcess(self._limits)
        return self.report()

    @property
    def _process(self) -> GradingProcess:
        if self._started is None:
            raise GraderBroken("the grader was not loaded")
        return self._started

    def grade(self, items: Sequence[GradingItem]) -> list[Verdict]:
        """Exactly one verdict an item, in order."""
        return self._process.grade_batch(items)

    def vote(self, answers: Sequence[str | None]) -> tuple[str | None, float] | None:
        """The majority answer and its share of all completions; None where voting times out."""
        return self._process.vote(answers)

    def report(self) -> dict[str, Any]:
        """Process ids, node and what happened to the children: `items`, `timeouts`, `crashes`, `restarts`, ..."""
        return {
            "pid": os.getpid(),
            "child_pid": self._process.pid,
            "node": socket.gethostname(),
            "node_id": ray.get_runtime_context().get_node_id() if ray.is_initialized() else None,
            **asdict(self._process.counters),
        }

    @ray.method(concurrency_group="health")
    def progress(self) -> dict[str, int]:
        """Counters that move while `grade` runs; answered by a thread of its own."""
        return asdict(self._started.counters) if self._started else {}

    def close(self) -> None:
        """Ends the child."""
        if self._started:
            self._started.close()


GraderActor: Any = ray.remote(concurrency_groups={"health": 1})(Grader)  # type: ignore[call-overload]  # stubs lack it
