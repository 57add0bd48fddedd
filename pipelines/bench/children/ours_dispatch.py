"""Our engine on an evaluation's units, in this process or behind an actor on a private Ray: `python -m … SPEC.json`."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from actors.engine.requests import Completion, GenerationRequest
from actors.models import ModelSpec
from pipelines.bench.children.memory import peak_resident
from pipelines.config import EvalConfig, load_config
from pipelines.dispatch.connect import connected
from pipelines.dispatch.fleet import Inbox
from pipelines.dispatch.launch import engine_settings, generator_pool
from pipelines.dispatch.loop import events
from pipelines.dispatch.preflight import Plan
from pipelines.dispatch.signals import StopFlag
from pipelines.dispatch.units import UnitPlan, make_units, plan_units
from pipelines.dispatch.work import FatalError, Finished, GivenUp, Unit
from pipelines.task import sampling_params

Generate = Callable[[Sequence[Unit]], list[Completion]]


def measure(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Load, warm up with a few of the units, then do all of them; returns what `Measurement.read` takes."""
    config = load_config(EvalConfig, None, spec["settings"])
    model = ModelSpec(**spec["model"])
    requests = [GenerationRequest(str(place), 0, tuple(ids)) for place, ids in enumerate(spec["prompts"])]
    plan = plan_units(config.generation.batch_size, len(requests), 1)
    units = make_units(requests, plan.size, sampling_params(config.sampling))
    side = _through_ray if spec["through_ray"] else _in_this_process
    with side(config, model, plan) as generate:
        generate(units[-4:])
        start = time.perf_counter()
        made = generate(units)
        seconds = time.perf_counter() - start
    lengths = {int(completion.problem_id): len(completion.token_ids) for completion in made}
    return {
        "lengths": [lengths[place] for place in range(len(requests))],
        "seconds": seconds,
        "peak_resident": peak_resident(),
    }


@contextmanager
def _in_this_process(config: EvalConfig, model: ModelSpec, plan: UnitPlan) -> Iterator[Generate]:
    import torch

    from actors.engine.build import build_engine
    from actors.engine.service import EngineService
    from actors.models import load_model

    threads = int(config.generators.cpus_per_actor)
    torch.set_num_threads(threads)
    engine = build_engine(load_model(model), engine_settings(config.generation))
    service = EngineService(engine, prepare=lambda: torch.set_num_threads(threads))

    def generate(units: Sequence[Unit]) -> list[Completion]:
        calls = [service.submit(unit.items, unit.context) for unit in units]
        return [completion for call in calls for completion in call.result()]

    try:
        yield generate
    finally:
        service.close()


@contextmanager
def _through_ray(config: EvalConfig, model: ModelSpec, plan: UnitPlan) -> Iterator[Generate]:
    fleet = Plan(1, 0.0, int(config.generators.cpus_per_actor), 0, 0.0)
    with connected(config.cluster, 1, StopFlag()):
        inbox = Inbox()
        pool = generator_pool(config, fleet, plan, model, inbox)

        def generate(units: Sequence[Unit]) -> list[Completion]:
            made: list[Completion] = []
            for unit in units:
                pool.add(unit)
            for event in events([pool], inbox.wait, lambda: False, max_backlog=0, finished=lambda: pool.idle):
                match event:
                    case Finished():
                        made += event.result
                    case GivenUp():
                        raise FatalError(event.reason)
            return made

        try:
            yield generate
        finally:
            pool.close()


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(Path(sys.argv[1]).read_text()))))
