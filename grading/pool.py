"""The grader as a Ray actor on CPUs. Scheduling is the driver's."""

import os
import socket
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import ray

from grading.limits import GradingItem, GradingLimits
from grading.process import GradingProcess
from grading.verdict import Verdict


class Grader:
    """One grading process with what the driver asks of an actor. Raises `GraderBroken` on creation if it does not
    grade."""

    def __init__(self, limits: GradingLimits | None = None) -> None:
        self._process = GradingProcess(limits)

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

    def close(self) -> None:
        """Ends the child."""
        self._process.close()


GraderActor = ray.remote(Grader)
