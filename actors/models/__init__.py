"""Finding, describing and loading models. Importing this package loads neither torch nor transformers."""

from actors.models.builtin import BUILTIN_MODELS, cache_folder, needs_fetching
from actors.models.checkpoint import approximate_parameters, context_length
from actors.models.error import ModelError
from actors.models.fingerprint import model_fingerprint
from actors.models.loading import LoadedModel, ModelSpec, load_model, load_tokenizer, read_config
from actors.models.sources import resolve_model

__all__ = [
    "BUILTIN_MODELS",
    "LoadedModel",
    "ModelError",
    "ModelSpec",
    "approximate_parameters",
    "cache_folder",
    "context_length",
    "load_model",
    "load_tokenizer",
    "model_fingerprint",
    "needs_fetching",
    "read_config",
    "resolve_model",
]
