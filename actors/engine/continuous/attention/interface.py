"""transformers' attention interface: learns what a model's layers ask for, and hands their attention to ours.

A model whose attention is called through a key that transformers does not know gets no mask, and its queries, keys
and values arrive rotated and not yet repeated, in any architecture that supports the interface.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel

from actors.engine.continuous.attention.layer import AttentionLayer

KEY = "mathlete"

_HARMLESS = {
    "attention_mask",
    "cache",
    "cache_position",
    "deterministic",
    "dropout",
    "is_causal",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "past_key_values",
    "position_embeddings",
    "position_ids",
    "return_dict",
    "use_cache",
}
"""Arguments of an attention call that change nothing here, whatever their value."""


class UnsupportedModelError(Exception):
    """The continuous engine would falsify this model's attention; the text names what it does not know."""


class Receiver(Protocol):
    """Gets each attention call of a forward pass; tensors are (1, heads, T, size), the result (1, T, heads, size)."""

    def __call__(self, module: Any, query: Tensor, key: Tensor, value: Tensor, given: dict[str, Any]) -> Tensor: ...


_current = threading.local()


def _call(module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **given: Any) -> Any:
    return _current.receiver(module, query, key, value, given), None


AttentionInterface.register(KEY, _call)


@contextmanager
def receiving(receiver: Receiver) -> Iterator[None]:
    """Attention calls made by this thread go to `receiver`."""
    _current.receiver = receiver
    try:
        yield
    finally:
        del _current.receiver


def check_interface(model: PreTrainedModel) -> None:
    """Raise UnsupportedModelError for an architecture whose attention cannot be taken over."""
    if not model._supports_attention_backend:
        raise UnsupportedModelError(f"{type(model).__name__} does not support transformers' attention interface")
    if model._is_stateful:
        raise UnsupportedModelError(f"{type(model).__name__} keeps a state other than keys and values")


@torch.inference_mode()
def find_layers(model: PreTrainedModel) -> list[AttentionLayer]:
    """Run two tokens through a model that uses the interface and return what its layers ask for, in order.

    Raises UnsupportedModelError for what this engine does not know, by name.
    """
    found: dict[int, AttentionLayer] = {}

    def look(module: Any, query: Tensor, key: Tensor, value: Tensor, given: dict[str, Any]) -> Tensor:
        index = getattr(module, "layer_idx", None)
        if index is None or index in found:
            raise UnsupportedModelError(f"{type(module).__name__} does not say which layer it is")
        found[index] = _layer(module, query, key, value, given)
        return query.new_zeros((1, query.shape[2], query.shape[1], value.shape[3]))

    ids = torch.zeros((1, 2), dtype=torch.int64, device=model.device)
    positions = torch.arange(2, device=model.device).unsqueeze(0)
    with receiving(look):
        model(ids, attention_mask=torch.ones_like(ids), position_ids=positions, use_cache=False)
    if sorted(found) != list(range(len(found))) or not found:
        raise UnsupportedModelError(f"{type(model).__name__} has layers without attention: {sorted(found)} have it")
    return [found[index] for index in range(len(found))]


def _layer(module: Any, query: Tensor, key: Tensor, value: Tensor, given: dict[str, Any]) -> AttentionLayer:
    name = type(module).__name__
    known = {"scaling", "sliding_window", "softcap", "s_aux"}
    if strange := sorted(
        key for key, value in given.items() if value is not None and value is not False and key not in known | _HARMLESS
    ):
        raise UnsupportedModelError(f"{name} asks for {', '.join(strange)}, which this engine does not know")
    if not getattr(module, "is_causal", True) or given.get("is_causal") is False:
        raise UnsupportedModelError(f"{name} is not causal")
    if len(key) != len(query) or key.shape[2] != query.shape[2]:
        raise UnsupportedModelError(f"{name} attends to something else than the tokens themselves")
    scale = given.get("scaling")
    return AttentionLayer(
        heads=query.shape[1],
        kv_heads=key.shape[1],
        key_size=key.shape[3],
        value_size=value.shape[3],
        scale=float(scale) if scale is not None else query.shape[3] ** -0.5,
        softcap=float(given.get("softcap") or 0.0),
        window=int(given.get("sliding_window") or 0),
        sinks=given.get("s_aux") is not None,
    )
