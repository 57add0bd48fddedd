"""The actors of a training run, and the one loop that drives them all."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from actors.learner import LearnerReport, LearnerSpec, PublishedWeights, TeacherSpec
from actors.models import ModelSpec
from actors.resources import shared_gpus
from pipelines.config import TrainingConfig
from pipelines.config.training import LearnerConfig
from pipelines.dispatch.connect import cluster_address, connected, offered_cpus
from pipelines.dispatch.fleet import Inbox
from pipelines.dispatch.generated import GRADING_UNIT
from pipelines.dispatch.launch import Errand, generator_pool, grading_pool, learner_pool
from pipelines.dispatch.loop import Wait, events
from pipelines.dispatch.nodes import read_nodes, request_nodes
from pipelines.dispatch.pool import WorkPool
from pipelines.dispatch.preflight import Plan, plan_fleet, wait_for_plan
from pipelines.dispatch.reservation import reserved
from pipelines.dispatch.signals import StopFlag
from pipelines.dispatch.units import make_units, units_of
from pipelines.dispatch.watch import NodeWatch, is_elastic
from pipelines.dispatch.work import Event, FatalError, Finished, GivenUp, Incident, Tick, Unit
from pipelines.records.incidents import IncidentLog
from pipelines.records.journal import VERDICTS
from pipelines.terminal.console import Console
from pipelines.terminal.status import Status
from pipelines.training.collection import Collection
from pipelines.training.progress import TrainingProgress


class Stopped(Exception):
    """A stop was asked for; what is finished is recorded."""


class LearnerLost(Exception):
    """The learner's process or node died. A new one starts from the newest checkpoint."""


@dataclass
class Crew:
    """Generators, graders and a learner. Whoever waits for something drives all of them meanwhile."""

    generators: WorkPool
    graders: WorkPool
    new_learner: Callable[[], WorkPool]
    unit_size: int
    """Completions that are handed out together."""
    console: Console
    stop: StopFlag
    incidents: IncidentLog
    progress: TrainingProgress
    plan: Plan
    wait: Wait
    clock: Callable[[], float] = time.monotonic
    watch: NodeWatch | None = None
    learner_report: LearnerReport | None = None
    _collections: dict[str, Collection] = field(default_factory=dict)
    """By the `problem_id` of their requests, until all of them are recorded. What comes later was begun twice, because a
    learner was lost in between, and is dropped."""
    _weights_dtype: str = ""
    """Of the generators."""
    _awaited: Collection | None = None
    _newest: Collection | None = None
    """The last that was awaited."""
    _answers: dict[str, Any] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.learner = self.new_learner()

    def start(self) -> LearnerReport:
        """Wait until the learner and a generator are ready; returns where the learner stands."""
        self.until(
            lambda: self.learner_report is not None and bool(self.generators.reports or not self.uses_generators)
        )
        assert self.learner_report is not None
        return self.learner_report

    def restart_learner(self) -> None:
        """A new learner takes the place of one that was lost; `start` waits for it.

        Generators finish what they have in hand. What was not handed out yet was meant for weights that are to come
        again: it is begun again then.
        """
        self.learner.close()
        self.generators.withdraw()
        self.learner_report = None
        self.learner = self.new_learner()

    @property
    def uses_generators(self) -> bool:
        return self.plan.generators > 0

    def begin(self, collection: Collection) -> None:
        """Hand out the requests of `collection`; who needs them waits with `until`."""
        if not collection.requests:
            return
        self._collections |= {request.problem_id: collection for request in collection.requests}
        for unit in make_units(collection.requests, self.unit_size, collection.sampling, collection.name):
            self.generators.add(unit)

    def collect(self, collection: Collection) -> None:
        """Wait for every request of `collection`, and forget it."""
        self._awaited = self._newest = collection
        self.until(lambda: collection.done)
        self._awaited = None
        for request in collection.requests:
            self._collections.pop(request.problem_id, None)

    def learn(self, method: str, *arguments: Any) -> Any:
        """Call a method of the learner and wait for its answer, while generators go on.

        Raises LearnerLost, and FatalError for what the learner itself raised.
        """
        name = f"{method}-{next(self._numbers)}"
        self.learner.add(Unit(name, (Errand(method, arguments),)))
        self.until(lambda: name in self._answers)
        return self._answers.pop(name)

    def share_weights(self) -> int:
        """Bring the learner's weights to all generators; returns their version. None takes work before it has them."""
        if not self.uses_generators:
            return 0
        published: PublishedWeights = self.learn("publish", self._weights_dtype)
        self.generators.set_weights(published.reference)
        return published.version

    def until(self, condition: Callable[[], bool]) -> None:
        """Drive everything until `condition()`. Raises Stopped, LearnerLost and FatalError."""
        pools = [self.generators, self.graders, self.learner] if self.uses_generators else [self.learner]
        backlog = 4 * GRADING_UNIT * max(1, self.plan.graders)
        for event in events(pools, self.wait, self.stop, max_backlog=backlog, finished=condition, clock=self.clock):
            self._handle(event)
        if not condition():
            raise Stopped

    def close(self) -> None:
        for pool in (self.generators, self.graders, self.learner):
            pool.close()

    def _handle(self, event: Event) -> None:
        match event:
            case Finished(pool="generator"):
                if wanted := self._collections.get(event.unit.items[0].problem_id):
                    for unit in wanted.generated(event):
                        self.graders.add(unit)
            case GivenUp(pool="generator"):
                if wanted := self._collections.get(event.unit.items[0].problem_id):
                    wanted.given_up(event.unit, event.reason)
            case Finished(pool="grader"):
                if wanted := self._collections.get(event.unit.items[0].completion.problem_id):
                    wanted.graded(event.unit.items, event.result)
            case GivenUp(pool="grader"):
                if wanted := self._collections.get(event.unit.items[0].completion.problem_id):
                    wanted.ungraded(event.unit.items, event.reason)
            case Finished(pool="learner"):
                self._answers[event.unit.id] = event.result
            case GivenUp(pool="learner") if event.unit.failures:
                raise FatalError(f"the learner failed: {event.reason}{_advice(event.reason)}")
            case Incident():
                self._tell(event)
            case Tick():
                self.console.show(self._status)
                for incident in self.watch.look() if self.watch else ():
                    self._tell(incident)

    def _tell(self, incident: Incident) -> None:
        self.incidents.record(incident.kind, incident.worker, incident.text, incident.details)
        if incident.pool == "learner" and incident.kind == "retired":
            raise LearnerLost(incident.text)
        if incident.kind != "ready":
            return
        report = incident.details["report"]
        if incident.pool == "learner":
            self.learner_report = report
            for reason in report.torn:
                self.console.warn(f"passed over a checkpoint: {reason}")
        if incident.pool == "generator":
            self._weights_dtype = report.dtype
            places = [known.placement for known in self.generators.reports.values()]
            if shared := shared_gpus(places, self.plan.gpus_per_generator):
                raise FatalError(f"two actors share a GPU that each should have alone: {', '.join(shared)}")
        if incident.pool != "grader":
            self.console.say(f"{incident.worker}: {report}")

    def _status(self) -> Status:
        verdicts = self._newest.verdicts if self._newest else {}
        pools = [self.learner, self.generators] if self.uses_generators else [self.learner]
        return self.progress.status(self._phase, pools, {name: verdicts[name] for name in VERDICTS if verdicts})

    @property
    def _phase(self) -> str:
        if self.learner_report is None:
            return "waiting for the learner"
        if self._awaited is None:
            return "the learner is at work"
        wanted = self._awaited
        return f"{wanted.name}: {len(wanted.requests) - wanted.missing} of {len(wanted.requests)} completions"


@contextmanager
def crew_of(
    config: TrainingConfig,
    model: ModelSpec,
    run_folder: Path,
    group_size: int,
    console: Console,
    stop: StopFlag,
    incidents: IncidentLog,
    progress: TrainingProgress,
    *,
    weights_bytes: int,
    reward: str | None = None,
    teacher: TeacherSpec | None = None,
    generating: bool = True,
) -> Iterator[Crew]:
    """The actors of a run on Ray, for the length of the block.

    A group of `group_size` completions is handed out together, so that its prompt is computed once. `reward` is the
    user's own, as `module:function`. `weights_bytes` is the size of the model in float32, for the object store.
    Raises Shortfall when the cluster has no room for them, and FatalError when Ray cannot be reached.
    """
    settings = _learner_section(config)
    idle = config.grading.cpus + (settings.cpus if settings.cpus != "auto" else 0)
    with connected(config.cluster, idle, stop, weights_bytes=weights_bytes) as cluster:
        plan = wait_for_plan(
            lambda: plan_fleet(
                config.generators, config.grading, config.model.device, read_nodes(), settings, generating=generating
            ),
            config.cluster.wait_for_nodes_s,
            console.say,
            request_nodes,
            stop,
        )
        console.say(f"{cluster}: {plan}")
        batch_size = config.generation.batch_size
        units = units_of(min(group_size, batch_size), batch_size, batch_size)
        with reserved(plan, wanted=config.cluster.reserve) as place:
            inbox = Inbox()
            crew = Crew(
                generators=generator_pool(config, plan, units, model, inbox, place),
                graders=grading_pool(config, plan, inbox, reward),
                new_learner=lambda: learner_pool(
                    config, _learner_spec(config, model, run_folder, plan, teacher), inbox, place
                ),
                unit_size=units.size,
                console=console,
                stop=stop,
                incidents=incidents,
                progress=progress,
                plan=plan,
                wait=inbox.wait,
            )
            if generating:
                crew.watch = NodeWatch(
                    read_nodes,
                    plan,
                    crew.generators,
                    crew.graders,
                    elastic=is_elastic(config),
                    settled=lambda: crew.learner_report is not None,
                )
            try:
                yield crew
            finally:
                crew.close()


def _learner_spec(
    config: TrainingConfig, model: ModelSpec, run_folder: Path, plan: Plan, teacher: TeacherSpec | None
) -> LearnerSpec:
    return LearnerSpec(
        model=model,
        settings=config.learner_settings(),
        run_folder=str(run_folder),
        keep_last=config.checkpoints.keep_last,
        keep_best=config.checkpoints.keep_best,
        num_cpus=plan.learner_cpus,
        num_gpus=plan.learner_gpus,
        teacher=teacher,
    )


def _learner_section(config: TrainingConfig) -> LearnerConfig:
    """Under a private Ray the learner may use every core: the generators wait for it."""
    if config.learner.cpus == "auto" and cluster_address(config.cluster) == "local":
        return config.learner.model_copy(update={"cpus": offered_cpus(config.cluster)})
    return config.learner


def _advice(reason: str) -> str:
    if "out of memory" in reason.lower():
        return (
            "\nLower learner.token_budget, set learner.gradient_checkpointing=true, or train low-rank updates with "
            "lora.rank=16; the same command resumes."
        )
    return ""
