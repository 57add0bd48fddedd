"""Which engine a model gets. Importing this module loads no torch: the driver names settings with it."""

from dataclasses import dataclass
from typing import Literal

from actors.engine.engine import Engine
from actors.models import LoadedModel


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How completions are batched; what None leaves open is decided by the device."""

    engine: Literal["auto", "continuous", "padded"] = "auto"
    policy: Literal["continuous", "static", "dynamic"] = "continuous"
    batch_size: int = 32
    """Rows at once."""
    token_budget: int | None = None
    """Tokens that one step runs through the model."""
    kv_cache_tokens: int | None = None
    """Tokens whose keys and values are kept."""
    kv_admission: Literal["optimistic", "worst_case"] = "optimistic"
    dynamic_window_s: float = 0.010
    dynamic_requests: int = 16


def build_engine(loaded: LoadedModel, settings: EngineSettings) -> Engine:
    """Return the engine that `settings` name for this model, which from now on belongs to the engine.

    `auto` is the continuous engine, or the padded one where that would falsify the model; `description` then says why.
    Raises ValueError where the engine asked for cannot serve the model.
    """
    from actors.engine.continuous.attention.interface import UnsupportedModelError
    from actors.engine.padded import PaddedEngine

    note = ""
    if settings.engine != "padded":
        try:
            return _continuous(loaded, settings)
        except UnsupportedModelError as error:
            if settings.engine == "continuous":
                raise ValueError(f"the continuous engine cannot serve this model: {error}") from error
            note = str(error)
    return PaddedEngine(
        loaded.model,
        loaded.tokenizer,
        batch_size=settings.batch_size,
        eos_token_ids=loaded.eos_token_ids,
        context_length=loaded.context_length,
        note=note,
    )


def _continuous(loaded: LoadedModel, settings: EngineSettings) -> Engine:
    from actors.engine.continuous.build import ContinuousOptions, build_continuous_engine
    from actors.engine.continuous.policy import Policy
    from actors.engine.machine import known_machine

    options = ContinuousOptions(
        batch_size=settings.batch_size,
        token_budget=settings.token_budget,
        kv_cache_tokens=settings.kv_cache_tokens,
        policy=Policy(settings.policy, settings.dynamic_window_s, settings.dynamic_requests),
        admission=settings.kv_admission,
        machine=known_machine(loaded.device, loaded.dtype),
    )
    return build_continuous_engine(
        loaded.model,
        loaded.tokenizer,
        options,
        eos_token_ids=loaded.eos_token_ids,
        context_length=loaded.context_length,
    )
