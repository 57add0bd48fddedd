"""The two pools of an evaluation, on Ray."""

from typing import Any

from actors.engine.requests import SamplingParams
from actors.generator import GeneratorActor, GeneratorSpec
from actors.models import ModelSpec
from actors.resources import actor_options
from grading.pool import GraderActor
from grading.process import GradingLimits
from pipelines.config.schema import ClusterConfig, EvalConfig
from pipelines.dispatch.fleet import RayTransport
from pipelines.dispatch.pool import PoolLimits, WorkPool
from pipelines.dispatch.preflight import Plan
from pipelines.dispatch.work import Unit


def generator_pool(config: EvalConfig, plan: Plan, model: ModelSpec, sampling: SamplingParams) -> WorkPool:
    """Units hold GenerationRequests; results are lists of Completions in the same order."""
    spec = GeneratorSpec(model, config.generation.batch_size, plan.cpus_per_generator, plan.gpus_per_generator)

    def generate(worker: Any, unit: Unit) -> Any:
        return worker.generate.remote(list(unit.items), sampling)

    options = actor_options(plan.cpus_per_generator, plan.gpus_per_generator)
    transport = RayTransport(GeneratorActor, (spec,), options, generate)
    return WorkPool("generator", transport, plan.generators, _limits(config.cluster, config.generators.min_actors))


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


def _limits(cluster: ClusterConfig, min_workers: int) -> PoolLimits:
    return PoolLimits(
        min_workers=min_workers,
        max_attempts=cluster.max_attempts,
        max_restarts=cluster.max_restarts,
        start_timeout_s=cluster.start_timeout_s,
        stall_timeout_s=cluster.stall_timeout_s,
    )
