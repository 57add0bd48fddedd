"""Actors that answer at once: what is left of a run's time is Ray's and the driver's own."""

from collections.abc import Sequence
from typing import Any

import ray

from actors.engine.requests import Completion, GenerationRequest
from actors.resources import actor_options
from pipelines.dispatch.contract import PoolLimits
from pipelines.dispatch.fleet import Inbox, RayTransport
from pipelines.dispatch.pool import WorkPool
from pipelines.dispatch.work import Unit


class Echo:
    """A generator without a model: completions of `tokens` tokens each, of no meaning."""

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens

    def load(self) -> None:
        """There is nothing to load."""

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        ids, logprobs = tuple(range(self._tokens)), (-0.5,) * self._tokens
        text = "token " * self._tokens
        return [
            Completion(request.problem_id, request.sample_index, text, ids, logprobs, logprobs, "eos")
            for request in requests
        ]

    def progress(self) -> dict[str, int]:
        """It never works for long."""
        return {}


EchoActor: Any = ray.remote(Echo)


def echo_pool(actors: int, tokens: int, limits: PoolLimits, inbox: Inbox) -> WorkPool:
    """Units hold GenerationRequests; results are lists of Completions."""

    def generate(worker: Any, unit: Unit) -> Any:
        return worker.generate.remote(list(unit.items))

    transport = RayTransport(EchoActor, (tokens,), actor_options(0.01, 0), generate, inbox)
    return WorkPool("generator", transport, actors, limits)
