"""Attention a sequence at a time with torch's own operations: for every device and every variant, and not fast."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from actors.engine.continuous.attention.layer import Attention, AttentionLayer
from actors.engine.continuous.step import Step


class LoopAttention(Attention):
    """Keys and values lie token by token; a sequence's context is one run."""

    name = "loop"
    share_prefixes = False
    token_axis = 0

    def __init__(self, layers: Sequence[AttentionLayer], tokens: int, dtype: torch.dtype, device: torch.device) -> None:
        self._layers = layers
        self.keys = [
            torch.empty((tokens, layer.kv_heads, layer.key_size), dtype=dtype, device=device) for layer in layers
        ]
        self.values = [
            torch.empty((tokens, layer.kv_heads, layer.value_size), dtype=dtype, device=device) for layer in layers
        ]

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, step: Step, sinks: Tensor | None = None
    ) -> Tensor:
        how = self._layers[layer]
        keys, values = self.keys[layer], self.values[layer]
        out = query.new_zeros((step.tokens, how.heads, how.value_size))
        for first, rows, length, _, _, own in step.spans:
            new = slice(first, first + rows)
            keys[own + length - rows : own + length] = key[new]
            values[own + length - rows : own + length] = value[new]
            begin = max(0, length - rows + 1 - how.window) if how.window else 0
            context = slice(own + begin, own + length)
            out[new] = _attend(query[new], keys[context], values[context], how, sinks)
        return out


def _attend(query: Tensor, key: Tensor, value: Tensor, how: AttentionLayer, sinks: Tensor | None) -> Tensor:
    """(R, Hq, Dv): the last R of K tokens look at all K, as far as causality and the window let them.

    `query` (R, Hq, Dk), `key` (K, Hkv, Dk), `value` (K, Hkv, Dv).
    """
    rows, length = len(query), len(key)
    group = how.heads // how.kv_heads
    mask = _visible(rows, length, how.window, query.device)
    if not how.softcap and not how.sinks and rows == 1:
        # The heads of a group are queries of the same keys: nothing is repeated.
        folded = query.view(1, how.kv_heads, group, how.key_size)
        keys, values = key.transpose(0, 1).unsqueeze(0), value.transpose(0, 1).unsqueeze(0)
        out = functional.scaled_dot_product_attention(folded, keys, values, scale=how.scale)
        return out.reshape(1, how.heads, how.value_size)
    keys = key.transpose(0, 1).repeat_interleave(group, dim=0)
    values = value.transpose(0, 1).repeat_interleave(group, dim=0)
    queries = query.transpose(0, 1)
    if not how.softcap and not how.sinks:
        out = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=how.scale)
        return out.transpose(0, 1)
    scores = (queries.float() @ keys.float().transpose(1, 2)) * how.scale
    if how.softcap:
        scores = how.softcap * torch.tanh(scores / how.softcap)
    scores = scores.masked_fill(~mask, -torch.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks.float().view(-1, 1, 1).expand(-1, rows, 1)], dim=-1)
    weights = scores.softmax(dim=-1)[..., :length]
    return (weights @ values.float()).to(query.dtype).transpose(0, 1)


def _visible(rows: int, length: int, window: int, device: torch.device) -> Tensor:
    """(R, K) bool."""
    row = torch.arange(length - rows, length, device=device).unsqueeze(-1)
    column = torch.arange(length, device=device)
    seen = column <= row
    return seen & (column > row - window) if window else seen
