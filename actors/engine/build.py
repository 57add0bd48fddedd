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
    """Return the engine that `settings` name for this model. Raises ValueError where it cannot serve the model."""
    from actors.engine.padded import PaddedEngine

    return PaddedEngine(
        loaded.model,
        loaded.tokenizer,
        batch_size=settings.batch_size,
        eos_token_ids=loaded.eos_token_ids,
        context_length=loaded.context_length,
    )
