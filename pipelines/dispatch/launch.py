"""The pools of a run, on Ray."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from actors.engine.build import EngineSettings
from actors.generator import GeneratorSpec, generator_actor
from actors.learner import LearnerActor, LearnerSpec
from actors.models import ModelSpec
from actors.resources import actor_options
from grading.pool import GraderActor
from grading.process import GradingLimits
from pipelines.config.schema import ClusterConfig, GenerationConfig, GradingConfig, JobConfig
from pipelines.dispatch.contract import PoolLimits
from pipelines.dispatch.fleet import Inbox, RayTransport
from pipelines.dispatch.pool import WorkPool
from pipelines.dispatch.preflight import Plan
from pipelines.dispatch.units import UnitPlan
from pipelines.dispatch.work import Unit

SPARE_CALLS = 2
"""Calls that a generator can take beyond those that it is given: an old one may still be on its way out."""


NOWHERE: Mapping[str, Any] = {}
"""No place in particular."""

KEEP_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(256 << 20),
}
"""For glibc in a learner on the CPU. By default it returns every large array to the system and gets it back page by page:
a fifth of a step, and more on a thread that is not the first."""


@dataclass(frozen=True, slots=True)
class Errand:
    """A call of a learner's method."""

    method: str
    arguments: Sequence[Any] = ()


def generator_pool(
    config: JobConfig, plan: Plan, units: UnitPlan, model: ModelSpec, inbox: Inbox, place: Mapping[str, Any] = NOWHERE
) -> WorkPool:
    """Units hold GenerationRequests and, as context, their SamplingParams; results are lists of Completions in the same
    order. `place` has Ray options that say where the actors are to be, see `reservation`."""
    settings = engine_settings(config.generation)
    spec = GeneratorSpec(model, settings, plan.cpus_per_generator, plan.gpus_per_generator)

    def generate(worker: Any, unit: Unit) -> Any:
        return worker.generate.remote(list(unit.items), unit.context)

    options = {**actor_options(plan.cpus_per_generator, plan.gpus_per_generator), **place}
    transport = RayTransport(generator_actor(units.window + SPARE_CALLS), (spec,), options, generate, inbox)
    limits = _limits(config.cluster, config.generators.min_actors)
    limits = replace(limits, concurrency=units.concurrency, window=units.window)
    return WorkPool("generator", transport, plan.generators, limits)


def grading_pool(config: JobConfig, plan: Plan, inbox: Inbox, reward: str | None = None) -> WorkPool:
    """Units hold objects with a `grading_item`; results are lists of Verdicts in the same order, with what the user's
    `reward` function gives."""

    def grade(worker: Any, unit: Unit) -> Any:
        return worker.grade.remote([item.grading_item for item in unit.items])

    arguments = (grading_limits(config.grading), reward)
    transport = RayTransport(GraderActor, arguments, actor_options(plan.cpus_per_grader, 0), grade, inbox)
    return WorkPool("grader", transport, plan.graders, _limits(config.cluster, 1))


def learner_pool(config: JobConfig, spec: LearnerSpec, inbox: Inbox, place: Mapping[str, Any] = NOWHERE) -> WorkPool:
    """A single worker whose units hold one Errand each; results are what the method returned.

    It is never replaced and nothing of it is repeated: a learner that starts again is at its last checkpoint, where the
    work in hand makes no sense.
    """

    def call(worker: Any, unit: Unit) -> Any:
        (errand,) = unit.items
        return getattr(worker, errand.method).remote(*errand.arguments)

    options = {**actor_options(spec.num_cpus, spec.num_gpus), **place}
    if not spec.num_gpus:
        options["runtime_env"]["env_vars"] |= KEEP_MEMORY
    transport = RayTransport(LearnerActor, (spec,), options, call, inbox)
    limits = replace(_limits(config.cluster, 0), max_attempts=1, max_failures=1, max_restarts=0)
    return WorkPool("learner", transport, 1, limits)


def grading_limits(config: GradingConfig) -> GradingLimits:
    """The section `grading`, in the words of the grader's package."""
    return GradingLimits(
        deadline_s=config.deadline_s,
        memory_mb=config.memory_mb,
        recycle_after=config.recycle_after,
        lenient=config.extraction == "lenient",
    )


def engine_settings(config: GenerationConfig) -> EngineSettings:
    """The section `generation`, in the words of the engine's package."""
    return EngineSettings(
        engine=config.engine,
        policy=config.policy,
        batch_size=config.batch_size,
        token_budget=None if config.token_budget == "auto" else config.token_budget,
        kv_cache_tokens=None if config.kv_cache_tokens == "auto" else config.kv_cache_tokens,
        kv_admission=config.kv_admission,
        dynamic_window_s=config.dynamic_window_ms / 1000,
        dynamic_requests=config.dynamic_requests,
    )


def _limits(cluster: ClusterConfig, min_workers: int) -> PoolLimits:
    return PoolLimits(
        min_workers=min_workers,
        max_attempts=cluster.max_attempts,
        max_restarts=cluster.max_restarts,
        start_timeout_s=cluster.start_timeout_s,
        stall_timeout_s=cluster.stall_timeout_s,
    )
