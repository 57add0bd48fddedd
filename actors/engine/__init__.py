"""Batched generation. Importing this package alone loads no torch; the engines live in its modules."""

from actors.engine.engine import Engine
from actors.engine.progress import Progress
from actors.engine.requests import Completion, GenerationRequest, SamplingParams

__all__ = ["Completion", "Engine", "GenerationRequest", "Progress", "SamplingParams"]
