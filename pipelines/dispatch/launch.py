"""The two pools of an evaluation, on Ray."""

from dataclasses import replace
from typing import Any

from actors.engine.build import EngineSettings
from actors.engine.requests import SamplingParams
from actors.generator import GeneratorSpec, generator_actor
from actors.models import ModelSpec
from actors.resources import actor_options
from grading.pool import GraderActor
from grading.process import GradingLimits
from pipelines.config.schema import ClusterConfig, EvalConfig, GenerationConfig
from pipelines.dispatch.fleet import RayTransport
from pipelines.dispatch.pool import PoolLimits, WorkPool
from pipelines.dispatch.preflight import Plan
from pipelines.dispatch.units import UnitPlan
from pipelines.dispatch.work import Unit

SPARE_CALLS = 2
"""Calls that a generator can take beyond those that it is given: an old one may still be on its way out."""


def generator_pool(
    config: EvalConfig, plan: Plan, units: UnitPlan, model: ModelSpec, sampling: SamplingParams
) -> WorkPool:
    """Units hold GenerationRequests; results are lists of Completions in the same order."""
    settings = engine_settings(config.generation)
    spec = GeneratorSpec(model, settings, plan.cpus_per_generator, plan.gpus_per_generator)

    def generate(worker: Any, unit: Unit) -> Any:
        return worker.generate.remote(list(unit.items), sampling)

    options = actor_options(plan.cpus_per_generator, plan.gpus_per_generator)
    transport = RayTransport(generator_actor(units.window + SPARE_CALLS), (spec,), options, generate)
    limits = _limits(config.cluster, config.generators.min_actors)
    limits = replace(limits, concurrency=units.concurrency, window=units.window)
    return WorkPool("generator", transport, plan.generators, limits)


def grading_pool(config: EvalConfig, plan: Plan) -> WorkPool:
    """Units hold objects with a `grading_item`; results are lists of Verdicts in the same order."""
    limits = GradingLimits(
        deadline_s=config.grading.deadline_s,
        memory_mb=config.grading.memory_mb,
        recycle_after=config.grading.recycle_after,
        lenient=config.grading.extraction == "lenient",
    )

    def grade(worker: Any, unit: Unit) -> Any:
        return worker.grade.remote([item.grading_item for item in unit.items])

    transport = RayTransport(GraderActor, (limits,), actor_options(plan.cpus_per_grader, 0), grade)
    return WorkPool("grader", transport, plan.graders, _limits(config.cluster, 1))


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
