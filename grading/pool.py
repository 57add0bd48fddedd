"""The grader as a Ray actor on CPUs. Scheduling is the driver's."""

import os
import socket
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import ray

from grading.limits import GradingItem, GradingLimits
from grading.process import GradingProcess
from grading.reward_function import RewardFunction
from grading.supervisor import GraderBroken
from grading.verdict import Verdict


class Grader:
    """One grading process with what the driver asks of an actor. `load` comes first.

    `reward` is the user's own reward, as `module:function`, and gets a process of its own.
    """

    def __init__(self, limits: GradingLimits | None = None, reward: str | None = None) -> None:
        self._limits = limits
        self._reward = reward
        self._started: GradingProcess | None = None
        self._function: RewardFunction | None = None

    def load(self) -> dict[str, Any]:
        """Start the process and let it grade known pairs, and import the reward function; returns `report()`.

        Apart from the constructor, because an exception here reaches the driver as itself.
        Raises `GraderBroken` if it does not grade them right or the function is not there.
        """
        if self._reward is not None:
            self._function = RewardFunction(self._reward, self._limits)
        self._started = GradingProcess(self._limits)
        return self.report()

    @property
    def _process(self) -> GradingProcess:
        if self._started is None:
            raise GraderBroken("the grader was not loaded")
        return self._started

    def grade(self, items: Sequence[GradingItem]) -> list[Verdict]:
        """Exactly one verdict an item, in order, with the reward that the user's function gives."""
        verdicts = self._process.grade_batch(items)
        if self._function is None:
            return verdicts
        rewards = self._function.rewards(items)
        return [
            replace(verdict, reward=given.value, reward_fault=given.fault)
            for verdict, given in zip(verdicts, rewards, strict=True)
        ]

    def report(self) -> dict[str, Any]:
        """Process ids, node, the GPUs that it could see (none, in a run) and what `progress` counts."""
        return {
            "pid": os.getpid(),
            "child_pid": self._process.pid,
            "node": ray.util.get_node_ip_address() if ray.is_initialized() else socket.gethostname(),
            "node_id": ray.get_runtime_context().get_node_id() if ray.is_initialized() else None,
            "cuda_visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
            **self._counters(),
        }

    @ray.method(concurrency_group="health")
    def progress(self) -> dict[str, int]:
        """What happened to the children (`items`, `timeouts`, `crashes`, `restarts`, …; `reward_items`, … with a reward
        function). The counters move while `grade` runs, and a thread of its own answers."""
        return self._counters()

    def close(self) -> None:
        """Ends the children."""
        for process in (self._started, self._function):
            if process:
                process.close()

    def _counters(self) -> dict[str, int]:
        counters = asdict(self._started.counters) if self._started else {}
        if self._function:
            counters |= {f"reward_{name}": count for name, count in asdict(self._function.counters).items()}
        return counters


GraderActor: Any = ray.remote(concurrency_groups={"health": 1})(Grader)  # type: ignore[call-overload]  # stubs lack it
