"""Generators, graders and a learner that only take time, on a clock of their own."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TextIO

from actors.engine.requests import Completion, GenerationRequest
from actors.learner import LearnedStep, PublishedWeights
from actors.learning import RolloutGroup
from actors.resources import Placement
from grading import Outcome, Verdict
from pipelines.config import GrpoConfig
from pipelines.dispatch.contract import Failure, PoolLimits
from pipelines.dispatch.pool import WorkPool
from pipelines.dispatch.preflight import Plan
from pipelines.dispatch.work import Ref, Unit
from pipelines.grpo import Grpo
from pipelines.records.journal import Journal
from pipelines.records.rollouts import RolloutRecord
from pipelines.records.run_folder import RunFolder
from pipelines.terminal.console import Console
from pipelines.training.course import Course
from pipelines.training.crew import Crew
from pipelines.training.task import prepare_training


@dataclass
class Clock:
    """Time passes only while somebody waits."""

    now: float = 0.0
    due: dict[Ref, tuple[float, Any]] = field(default_factory=dict)
    told: set[Ref] = field(default_factory=set)
    numbers: count = field(default_factory=count)

    def promise(self, when: float, value: Any) -> Ref:
        ref = next(self.numbers)
        self.due[ref] = (when, value)
        return ref

    def wait(self, timeout: float) -> Ref | None:
        untold = [(when, ref) for ref, (when, _) in self.due.items() if ref not in self.told]
        when, ref = min(untold, default=(self.now + timeout + 1, None))
        if when > self.now + timeout:
            self.now += timeout
            return None
        self.now = max(self.now, when)
        self.told.add(ref)
        return ref


@dataclass(eq=False)
class Worker:
    name: str
    version: int = -1
    free_at: float = 0.0


@dataclass
class Report:
    """Of a generator or a learner that has just started."""

    placement: Placement = field(default_factory=lambda: Placement("node", "address", 1, ()))
    device_name: str = "CPU"
    threads: int = 2
    dtype: str = "float32"
    step: int = 0
    checkpoint: str | None = None
    torn: tuple[str, ...] = ()


@dataclass
class Transport:
    """`work(worker, unit)` returns the seconds that a call takes and what comes of it; calls of a worker follow each
    other."""

    clock: Clock
    work: Callable[[Worker, Unit], tuple[float, Any]]
    update_s: float = 0.0

    def create(self, name: str) -> Worker:
        return Worker(name)

    def load(self, worker: Worker) -> Ref:
        return self.clock.promise(self.clock.now, Report())

    def call(self, worker: Worker, unit: Unit) -> Ref:
        seconds, value = self.work(worker, unit)
        worker.free_at = max(worker.free_at, self.clock.now) + seconds
        return self.clock.promise(worker.free_at, value)

    def update(self, worker: Worker, weights: int) -> Ref:
        worker.version = weights
        return self.clock.promise(self.clock.now + self.update_s, weights)

    def progress(self, worker: Worker) -> Ref:
        return self.clock.promise(self.clock.now, {"calls": self.clock.now})

    def kill(self, worker: Worker) -> None: ...

    def fetch(self, ref: Ref) -> Any:
        return self.clock.due.pop(ref)[1]

    def classify(self, error: Exception) -> Failure:
        raise error

    def describe(self, error: Exception) -> str:
        return str(error)


class Simulation:
    """A GRPO run on such devices. `trained` has the groups of each step with the version that they were learnt by."""

    def __init__(
        self,
        config: GrpoConfig,
        folder: Path,
        *,
        generators: int,
        generate_s: Callable[[Worker, Unit], float],
        learn_s: Callable[[int], float],
        log: TextIO | None = None,
    ) -> None:
        """What a person would see goes to `log`, by the simulation's own clock."""
        self.clock = Clock()
        self.version = 0
        self.trained: list[tuple[int, list[RolloutGroup]]] = []
        self._learn_s = learn_s
        clock = self.clock

        def generate(worker: Worker, unit: Unit) -> tuple[float, Any]:
            return generate_s(worker, unit), [completion(request, worker.version) for request in unit.items]

        def grade(worker: Worker, unit: Unit) -> tuple[float, Any]:
            return 0.001, [Verdict(list(Outcome)[item.completion.sample_index % 2], "") for item in unit.items]

        limits = PoolLimits()
        run_folder = RunFolder(folder)
        console = Console(log, quiet=log is None, clock=lambda: clock.now)
        task = prepare_training(config, console)
        course = Course(config, task, run_folder, console, lambda: False, "simulated", config.grpo.steps)
        crew = Crew(
            generators=WorkPool("generator", Transport(clock, generate), generators, limits, clock=lambda: clock.now),
            graders=WorkPool("grader", Transport(clock, grade), 1, limits, clock=lambda: clock.now),
            new_learner=lambda: WorkPool(
                "learner", Transport(clock, self._learner_work), 1, limits, clock=lambda: clock.now
            ),
            unit_size=config.grpo.num_generations,
            console=console,
            stop=lambda: False,
            incidents=course.incidents,
            progress=course.progress,
            plan=Plan(generators, 0.0, 1, 1, 1.0, 1),
            wait=clock.wait,
            clock=lambda: clock.now,
        )
        journal: Journal[RolloutRecord] = Journal(folder / "rollouts.jsonl", RolloutRecord)
        self.journal = journal
        self.crew = crew
        self.grpo = Grpo(config, task, journal, crew, course)

    def run(self) -> float:
        """Every step; returns the seconds that they took."""
        self.crew.start()
        start = self.clock.now
        self.grpo.run(0)
        return self.clock.now - start

    def _learner_work(self, worker: Worker, unit: Unit) -> tuple[float, Any]:
        (errand,) = unit.items
        if errand.method == "publish":
            return 0.0, PublishedWeights(self.version, self.version)
        if errand.method == "save":
            return 0.0, "path"
        (groups,) = errand.arguments
        self.trained.append((self.version, groups))
        self.version += 1
        return self._learn_s(len(self.trained)), LearnedStep({}, [[0.0] * len(group.rollouts) for group in groups])


def completion(request: GenerationRequest, version: int) -> Completion:
    return Completion(
        request.problem_id, request.sample_index, "4", (5,), (-0.5,), (-0.5,), "eos", policy_version=version
    )
