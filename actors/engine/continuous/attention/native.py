"""Attention on the CPU by this project's own kernels: no padding, no mask, no copy, the same bits in any company."""

from collections.abc import Sequence

import torch
from torch import Tensor

from actors.engine.continuous.attention.layer import Attention, AttentionLayer
from actors.engine.continuous.step import Step
from actors.engine.native.kernels import Kernels


class NativeAttention(Attention):
    """Keys lie in blocks of 16 tokens, transposed inside; values token by token; heads apart."""

    name = "native"
    share_prefixes = True
    token_axis = 1

    def __init__(self, kernels: Kernels, layers: Sequence[AttentionLayer], tokens: int, dtype: torch.dtype) -> None:
        self.kernels = kernels
        self._layers = layers
        self.keys = [torch.empty((layer.kv_heads, tokens, layer.key_size), dtype=dtype) for layer in layers]
        self.values = [torch.empty((layer.kv_heads, tokens, layer.value_size), dtype=dtype) for layer in layers]

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, step: Step, sinks: Tensor | None = None
    ) -> Tensor:
        self.kernels.store_kv(key, value, self.keys[layer], self.values[layer], step.slots)
        return self.attend_stored(layer, query, step, sinks)

    def attend_stored(self, layer: int, query: Tensor, step: Step, sinks: Tensor | None = None) -> Tensor:
        """As `attend`, for keys and values that a fused kernel has stored already."""
        how = self._layers[layer]
        shape = (step.tokens, how.heads, how.value_size)
        filled_up = step.spans[-1][0] + step.spans[-1][1] < step.tokens
        out = query.new_zeros(shape) if filled_up else query.new_empty(shape)
        self.kernels.attend(
            query,
            self.keys[layer],
            self.values[layer],
            out,
            step.sequences,
            scale=how.scale,
            softcap=how.softcap,
            window=how.window,
            sinks=sinks,
        )
        return out
