"""Attention on a GPU by torch's variable-length flash kernel, straight from the runs of the pool."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn

from actors.engine.continuous.attention.layer import Attention, AttentionLayer
from actors.engine.continuous.runs import BLOCK
from actors.engine.continuous.step import Step

LARGEST_HEAD = 256


@dataclass(frozen=True, slots=True)
class Lengths:
    """What the kernel wants to know of a step's N sequences; `most_*` are numbers, and part of a graph's identity."""

    slots: Tensor
    """(T,) int64, the pool's token for each row; -1 is the spare one at the end."""
    query_starts: Tensor
    """(N + 1,) int32."""
    key_starts: Tensor
    """(N + 1,) int32. Runs lie anywhere in the pool: only each sequence's own start is read."""
    keys_used: Tensor
    """(N,) int32."""
    most_queries: int
    most_keys: int


class VarlenAttention(Attention):
    """Keys and values lie token by token, a sequence's context in one run. A spare block at the end of the pool takes
    what is to be thrown away."""

    name = "varlen"
    share_prefixes = False
    token_axis = 0

    def __init__(self, layers: Sequence[AttentionLayer], tokens: int, dtype: torch.dtype, device: torch.device) -> None:
        self._layers = layers
        self.tokens = tokens
        shapes = [(tokens + BLOCK, layer.kv_heads, layer.key_size) for layer in layers]
        self.keys = [torch.zeros(shape, dtype=dtype, device=device) for shape in shapes]
        self.values = [torch.zeros(shape, dtype=dtype, device=device) for shape in shapes]
        self._step: Step | None = None
        self._lengths: Lengths | None = None

    @staticmethod
    def supports(dtype: torch.dtype, layers: Sequence[AttentionLayer]) -> bool:
        plain = all(not layer.softcap and not layer.sinks for layer in layers)
        sizes = all(layer.key_size == layer.value_size <= LARGEST_HEAD and layer.key_size % 8 == 0 for layer in layers)
        return plain and sizes and dtype in (torch.bfloat16, torch.float16)

    def use(self, step: Step, lengths: Lengths) -> None:
        """Read `lengths` for `step`, in place of working them out."""
        self._step, self._lengths = step, lengths

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, step: Step, sinks: Tensor | None = None
    ) -> Tensor:
        if self._step is not step or self._lengths is None:
            self.use(step, lengths_of(step))
        lengths = self._lengths
        assert lengths is not None
        how = self._layers[layer]
        self.keys[layer][lengths.slots] = key
        self.values[layer][lengths.slots] = value
        out = varlen_attn(
            query.contiguous(),
            self.keys[layer],
            self.values[layer],
            lengths.query_starts,
            lengths.key_starts,
            lengths.most_queries,
            lengths.most_keys,
            scale=how.scale,
            window_size=(how.window - 1 if how.window else -1, 0),
            enable_gqa=how.heads != how.kv_heads,
            seqused_k=lengths.keys_used,
            num_splits=1,  # a row's bits must not depend on the longest of its neighbours
        )
        assert isinstance(out, Tensor)
        return out


def lengths_of(step: Step) -> Lengths:
    """Rows that fill a step up belong to no sequence; the kernel is told of one more, which reads the spare block."""
    first_row, rows, length, _, _, own_start = step.sequences.unbind(1)
    end = first_row[-1:] + rows[-1:]
    return Lengths(
        slots=step.slots.long(),
        query_starts=torch.cat([first_row, end]),
        key_starts=torch.cat([own_start, own_start[-1:] + length[-1:]]),
        keys_used=length.contiguous(),
        most_queries=max(span[1] for span in step.spans),
        most_keys=max(span[2] for span in step.spans),
    )
