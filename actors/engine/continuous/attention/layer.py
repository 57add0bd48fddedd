"""What a model's attention asks for, layer by layer."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from actors.engine.continuous.runs import blocks
from actors.engine.continuous.scheduler import Copy
from actors.engine.continuous.step import Step


@dataclass(frozen=True, slots=True)
class AttentionLayer:
    """Shape and variant of one layer's attention. Sizes in numbers of elements."""

    heads: int
    kv_heads: int
    key_size: int
    value_size: int
    scale: float
    softcap: float = 0.0
    """Scores become softcap x tanh(score / softcap). 0: they do not."""
    window: int = 0
    """Tokens that a query sees, itself included. 0: all before it."""
    sinks: bool = False
    """Whether each head has a learned logit that joins the softmax and carries no value."""

    def bytes_per_token(self, element: int) -> int:
        return self.kv_heads * (self.key_size + self.value_size) * element


class Attention(Protocol):
    """Attention over a pool of keys and values that it owns, in the layout that its kernel likes."""

    name: str
    share_prefixes: bool
    """Whether a sequence's context may lie in two runs, a prefix that others read too and its own."""

    keys: list[Tensor]
    """The pool, a tensor a layer."""
    values: list[Tensor]
    token_axis: int
    """Which dimension of the pool's tensors counts its tokens."""

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, step: Step, sinks: Tensor | None = None
    ) -> Tensor:
        """Store the new keys and values and return (T, Hq, Dv).

        `query` (T, Hq, Dk), `key` (T, Hkv, Dk), `value` (T, Hkv, Dv), the last dimension contiguous; `sinks` (Hq,).
        Rows of the result that belong to no sequence are zero.
        """
        ...

    def copy(self, copies: list[Copy]) -> None:
        """Copy keys and values of all layers, whole blocks, in this order; starts are multiples of the block size."""
        for copy in copies:
            size = blocks(copy.tokens)
            for pool in (*self.keys, *self.values):
                source = pool.narrow(self.token_axis, copy.source, size)
                pool.narrow(self.token_axis, copy.target, size).copy_(source)

    def poison(self, start: int, size: int) -> None:
        """Fill a free run with NaN, so that a test sees whoever reads it."""
        for pool in (*self.keys, *self.values):
            pool.narrow(self.token_axis, start, size).fill_(torch.nan)
