"""A pool's I/O played from a script: workers that take time, die, hang or raise, on a clock of their own."""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any

from pipelines.dispatch.contract import Failure
from pipelines.dispatch.work import Ref, Unit


class Died(Exception):
    """The worker is gone."""


class Broken(Exception):
    """Nothing can be loaded anywhere."""


@dataclass
class FakeWorker:
    name: str
    alive: bool = True
    stopped: bool = False
    busy_until: list[float] = field(default_factory=list)
    """When each of the units that it does at once is over."""
    steps: int = 0


@dataclass
class ScriptTransport:
    """`behave(worker, unit)` returns seconds, or raises what the call is to raise; a stopped worker never answers.

    A worker does `concurrency` units at once and those beyond in the order in which it got them.
    """

    behave: Callable[[FakeWorker, Unit], float] = lambda worker, unit: 1.0
    startup: Callable[[FakeWorker], float] = lambda worker: 0.0
    concurrency: int = 1
    now: float = 0.0
    workers: list[FakeWorker] = field(default_factory=list)
    calls: list[tuple[str, Unit]] = field(default_factory=list)
    due: dict[Ref, tuple[float, FakeWorker, Any]] = field(default_factory=dict)
    told: set[Ref] = field(default_factory=set)
    numbers: count = field(default_factory=count)

    def clock(self) -> float:
        return self.now

    def create(self, name: str) -> FakeWorker:
        self.workers.append(FakeWorker(name, busy_until=[0.0] * self.concurrency))
        return self.workers[-1]

    def load(self, worker: FakeWorker) -> Ref:
        try:
            return self._promise(self.now + self.startup(worker), worker, f"report of {worker.name}")
        except (Died, Broken) as error:
            return self._promise(self.now, worker, error)

    def call(self, worker: FakeWorker, unit: Unit) -> Ref:
        self.calls.append((worker.name, unit))
        start = max(self.now, heappop(worker.busy_until))
        try:
            seconds, value = self.behave(worker, unit), [f"{item} by {worker.name}" for item in unit.items]
        except Exception as error:  # noqa: BLE001
            seconds, value = 1.0, error
        heappush(worker.busy_until, start + seconds)
        return self._promise(start + seconds, worker, value)

    def progress(self, worker: FakeWorker) -> Ref:
        worker.steps += 1
        return self._promise(self.now, worker, worker.steps)

    def kill(self, worker: FakeWorker) -> None:
        worker.alive = False

    def fetch(self, ref: Ref) -> Any:
        _, worker, value = self.due.pop(ref)
        if not worker.alive:
            raise Died(f"{worker.name} died")
        if isinstance(value, Exception):
            if isinstance(value, Died):
                worker.alive = False
            raise value
        return value

    def classify(self, error: Exception) -> Failure:
        return {Died: Failure.INFRA, Broken: Failure.FATAL}.get(type(error), Failure.DATA)

    def describe(self, error: Exception) -> str:
        return str(error)

    def wait(self, timeout: float) -> Ref | None:
        """The next finished reference; the clock jumps to when it is, or by `timeout`."""
        answering = {
            ref: at if worker.alive else self.now
            for ref, (at, worker, _) in self.due.items()
            if ref not in self.told and not (worker.alive and worker.stopped)
        }
        soon = min(answering, key=lambda ref: answering[ref], default=None)
        if soon is None or answering[soon] > self.now + timeout:
            self.now += timeout
            return None
        self.now = max(self.now, answering[soon])
        self.told.add(soon)
        return soon

    def _promise(self, at: float, worker: FakeWorker, value: Any) -> Ref:
        ref = f"ref-{next(self.numbers)}"
        self.due[ref] = (at, worker, value)
        return ref
