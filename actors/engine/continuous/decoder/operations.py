"""The decoder's small operations, each as one call: by the native kernels on a CPU, else by torch's own."""

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from actors.engine.continuous.attention.layer import Attention, AttentionLayer
from actors.engine.continuous.attention.native import NativeAttention
from actors.engine.continuous.step import Step


class Operations(Protocol):
    """(T, H) rows in the model's type throughout."""

    def add_norm(self, x: Tensor | None, hidden: Tensor, weight: Tensor, eps: float) -> Tensor:
        """Add `x` to `hidden` in place and return RMSNorm(hidden) x weight (Zhang and Sennrich, 2019)."""
        ...

    def attend(
        self,
        index: int,
        qkv: Tensor,
        rotation: tuple[Tensor, Tensor],
        norms: tuple[Tensor, Tensor] | None,
        eps: float,
        step: Step,
    ) -> Tensor:
        """Split `qkv` (T, (Hq + 2 Hkv) x D), norm heads where there are weights for it, rotate (Su et al., 2021) by
        cosines and sines (T, D), store, and return the attention's result (T, Hq x D)."""
        ...

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        """(T, 2 I) to (T, I): SiLU(gate) x up (Shazeer, 2020)."""
        ...


class NativeOperations:
    """One kernel each; keys are rotated and stored in one go."""

    def __init__(self, attention: NativeAttention, layers: list[AttentionLayer]) -> None:
        self._kernels = attention.kernels
        self._attention = attention
        self._layers = layers

    @staticmethod
    def supports(hidden_size: int, intermediate_size: int, layers: list[AttentionLayer]) -> bool:
        sizes = all(layer.key_size == layer.value_size and layer.key_size % 32 == 0 for layer in layers)
        return sizes and hidden_size % 16 == 0 and intermediate_size % 16 == 0

    def add_norm(self, x: Tensor | None, hidden: Tensor, weight: Tensor, eps: float) -> Tensor:
        out = torch.empty_like(hidden)
        self._kernels.add_rms_norm(x, hidden, weight, out, eps)
        return out

    def attend(
        self,
        index: int,
        qkv: Tensor,
        rotation: tuple[Tensor, Tensor],
        norms: tuple[Tensor, Tensor] | None,
        eps: float,
        step: Step,
    ) -> Tensor:
        layer = self._layers[index]
        query = qkv.new_empty((step.tokens, layer.heads, layer.key_size))
        keys, values = self._attention.keys[index], self._attention.values[index]
        q_norm, k_norm = norms or (None, None)
        self._kernels.rope_store(qkv, query, keys, values, *rotation, step.slots, q_norm, k_norm, eps)
        return self._attention.attend_stored(index, query, step).view(step.tokens, -1)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        out = gate_up.new_empty((len(gate_up), gate_up.shape[1] // 2))
        self._kernels.silu_mul(gate_up, out)
        return out


class TorchOperations:
    """For any device."""

    def __init__(self, attention: Attention, layers: list[AttentionLayer]) -> None:
        self._attention = attention
        self._layers = layers

    def add_norm(self, x: Tensor | None, hidden: Tensor, weight: Tensor, eps: float) -> Tensor:
        if x is not None:
            hidden += x
        return functional.rms_norm(hidden, weight.shape, weight, eps)

    def attend(
        self,
        index: int,
        qkv: Tensor,
        rotation: tuple[Tensor, Tensor],
        norms: tuple[Tensor, Tensor] | None,
        eps: float,
        step: Step,
    ) -> Tensor:
        layer = self._layers[index]
        heads = qkv.view(step.tokens, layer.heads + 2 * layer.kv_heads, layer.key_size)
        query, key, value = heads.split([layer.heads, layer.kv_heads, layer.kv_heads], dim=1)
        if norms is not None:
            query, key = (
                functional.rms_norm(part, weight.shape, weight, eps)
                for part, weight in zip((query, key), norms, strict=True)
            )
        query, key = (_rotated(part, *rotation) for part in (query, key))
        return self._attention.attend(index, query, key, value, step).reshape(step.tokens, -1)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        gate, up = gate_up.chunk(2, dim=-1)
        return functional.silu(gate) * up


def _rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate (T, heads, D) in pairs of components half of D apart."""
    half = x.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * cosine.unsqueeze(1) + turned * sine.unsqueeze(1)
