"""Batched generation. Importing this package alone loads no torch; the engines live in its modules."""

from collections.abc import Callable, Sequence
from typing import Protocol

from actors.engine.progress import Progress
from actors.engine.requests import Completion, GenerationRequest, SamplingParams

__all__ = ["Completion", "Engine", "GenerationRequest", "Progress", "SamplingParams"]


class Engine(Protocol):
    """What every engine offers, so that they can take each other's place and check each other."""

    progress: Progress

    def generate(
        self,
        requests: Sequence[GenerationRequest],
        sampling: SamplingParams,
        should_stop: Callable[[], bool] | None = None,
    ) -> list[Completion]:
        """Return one completion a request, in their order; those unfinished when `should_stop` says True are missing."""
        ...
