"""Attention masks of a left-padded batch: causal and padding combined, from lengths, no row ever fully masked.

A query that may look at no key makes softmax divide zero by zero: NaN with some kernels, a plausible average with
others, and a NaN at a padded place spreads to real ones in the next layer. Padded queries therefore look at
themselves, here by construction; real queries always do.
"""

from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.masking_utils import create_masks_for_generate

from actors.engine.padded.cache import GrowingCache

MaskArgument = Tensor | dict[str, Tensor | None] | None
"""What a model takes as `attention_mask`: one mask, or one for each type of layer."""

SLICED_LAYERS = {"full_attention", "sliding_attention"}
"""Layer types whose decode mask is a slice of the padding mask: every column their cache hands out may be seen."""


def prefill_mask(model: PreTrainedModel, padding: list[int], columns: int, cache: GrowingCache) -> MaskArgument:
    """Return the mask for queries at all `columns` of the empty `cache`, row i starting with `padding[i]` padded ones.

    transformers builds it, so sliding windows, mixed layer types and every attention implementation come out as the
    model itself would have them. Models that derive masks themselves get the plain (rows, columns) mask.
    """
    # Knowing from lengths that nothing is padded spares the device the question, and the model the mask.
    real = _real(padding, columns, model.device) if any(padding) else None
    if _derives_masks(model):
        return real
    built = _build(model, real, len(padding), columns, cache)
    if isinstance(built, dict):
        return {name: _seeing_itself(mask) for name, mask in built.items()}
    return _seeing_itself(built)


class DecodeMasks:
    """Masks for the decode steps of one batch whose row i starts with `padding[i]` padded of `columns` columns.

    At a decode step all columns but the padding are visible, so one float mask is made ahead and sliced.
    """

    def __init__(self, model: PreTrainedModel, padding: list[int], columns: int, capacity: int) -> None:
        self._model = model
        self._padding = padding
        self._columns = columns
        self._capacity = capacity
        types = getattr(model.config.get_text_config(), "layer_types", None)
        self._layers = {name: types.index(name) for name in dict.fromkeys(types)} if types is not None else None
        self._sliced = not hasattr(model, "create_masks_for_generate") and set(self._layers or ()) <= SLICED_LAYERS
        self._fill()

    def next(self, cache: GrowingCache) -> MaskArgument:
        """Return the mask for one more column than those in `cache`."""
        self._columns += 1
        real = self._real[:, : self._columns]
        if _derives_masks(self._model):
            return real
        if not self._sliced:
            return _build(self._model, real, len(self._padding), 1, cache)
        if self._layers is None:
            return self._slice(cache, 0)
        return {name: self._slice(cache, layer) for name, layer in self._layers.items()}

    def retain(self, order: list[int], drop_columns: bool) -> int:
        """Keep the rows `order` names, in that order; drop, if so asked, leading columns that are padding in all of
        them. Returns how many columns are left."""
        self._padding = [self._padding[row] for row in order]
        if drop_columns:
            dropped = min(self._padding)
            self._padding = [padding - dropped for padding in self._padding]
            self._columns -= dropped
        self._fill()
        return self._columns

    def _fill(self) -> None:
        self._real = _real(self._padding, self._capacity, self._model.device)
        zero = torch.zeros((), dtype=self._model.dtype, device=self._model.device)
        self._additive = torch.where(self._real[:, None, None, :] > 0, zero, torch.finfo(zero.dtype).min)

    def _slice(self, cache: GrowingCache, layer: int) -> Tensor | None:
        if self._model.device.type == "cuda" and not any(self._padding):
            # Without a mask, scaled_dot_product_attention may take its flash kernel.
            return None
        length, offset = cache.get_mask_sizes(1, layer)
        return self._additive[..., offset : offset + length]


def _derives_masks(model: PreTrainedModel) -> bool:
    """Whether the model wants the padding alone: flash attention, and architectures such as Bloom and Falcon."""
    implementation = model.config.get_text_config()._attn_implementation or ""
    return "flash" in implementation or not model._supports_attention_backend


def _real(padding: list[int], columns: int, device: torch.device) -> Tensor:
    """(rows, columns) int64: 1 where a column holds a token, 0 where it is padding."""
    first = torch.tensor(padding, device=device).unsqueeze(-1)
    return (torch.arange(columns, device=device) >= first).long()


def _build(model: PreTrainedModel, real: Tensor | None, rows: int, queries: int, cache: GrowingCache) -> Any:
    create = getattr(model, "create_masks_for_generate", create_masks_for_generate)
    shape = torch.empty((rows, queries, 1), dtype=model.dtype, device=model.device)
    return create(config=model.config, inputs_embeds=shape, attention_mask=real, cache=cache)


def _seeing_itself(mask: Tensor | None) -> Tensor | None:
    if mask is None or mask.ndim != 4:
        return mask
    itself = torch.eye(mask.shape[-1], dtype=torch.bool, device=mask.device)
    return mask | itself if mask.dtype == torch.bool else mask.masked_fill(itself, 0)
