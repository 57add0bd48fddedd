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

from actors.engine.cache import GrowingCache

MaskArgument = Tensor | dict[str, Tensor | None] | None
"""What a model takes as `attention_mask`: one mask, or one for each type of layer."""

SLICED_LAYERS = {"full_attention", "sliding_attention"}
"""Layer types whose decode mask is a slice of the padding mask: every column their cache hands out may be seen."""


class LeftPaddingMasks:
    """Masks for the prefill and each decode step of one batch whose row i starts with `padding[i]` padded columns.

    transformers builds the prefill mask, so sliding windows, mixed layer types and every attention implementation
    come out as the model itself would have them. At a decode step all columns but the padding are visible, so one
    float mask is made ahead and sliced. Models that derive their masks themselves (Bloom, Falcon) and flash
    attention get the plain (rows, columns) padding mask instead.
    """

    def __init__(self, model: PreTrainedModel, padding: list[int], columns: int, capacity: int) -> None:
        self._model = model
        self._config = model.config.get_text_config()
        self._implementation = self._config._attn_implementation or "eager"
        self._plain = "flash" in self._implementation or not model._supports_attention_backend
        self._device = model.device
        self._padding = padding
        self._columns = columns
        self._layers: dict[str, int] | None = None
        self._set_capacity(max(capacity, columns))

    def prefill(self, cache: GrowingCache) -> MaskArgument:
        """Mask for queries at all `columns` of an empty `cache`."""
        built = self._build(cache, self._columns)
        if isinstance(built, dict):
            types = getattr(self._config, "layer_types", [])
            self._layers = {name: types.index(name) for name in built if name in types}
            return {name: self._see_self(mask) for name, mask in built.items()}
        return self._see_self(built)

    def decode(self, cache: GrowingCache) -> MaskArgument:
        """Mask for one more column after those in `cache`."""
        self._columns += 1
        if self._columns > self._additive.shape[-1]:
            self._set_capacity(self._columns + self._columns // 4)
        if self._plain:
            return self._build(cache, 1)
        if self._layers is None:
            return self._slice(cache, 0)
        if not self._layers.keys() <= SLICED_LAYERS:
            return self._build(cache, 1)
        return {name: self._slice(cache, layer) for name, layer in self._layers.items()}

    def retain(self, order: list[int], drop_columns: bool) -> int:
        """Keep the rows `order` names, in that order; drop, if so asked, leading columns that are padding in all of
        them. Returns how many columns are left."""
        self._padding = [self._padding[row] for row in order]
        if drop_columns:
            dropped = min(self._padding)
            self._padding = [padding - dropped for padding in self._padding]
            self._columns -= dropped
        self._set_capacity(self._additive.shape[-1])
        return self._columns

    def _set_capacity(self, capacity: int) -> None:
        padding = torch.tensor(self._padding, device=self._device).unsqueeze(-1)
        self._real = torch.arange(capacity, device=self._device) >= padding
        dtype = self._model.dtype
        zero = torch.zeros((), dtype=dtype, device=self._device)
        self._additive = torch.where(self._real[:, None, None, :], zero, torch.finfo(dtype).min)

    def _build(self, cache: GrowingCache, queries: int) -> Any:
        # Knowing from lengths that nothing is padded spares the device the question, and the model the mask.
        real = self._real[:, : self._columns].long() if any(self._padding) else None
        if self._plain:
            return real
        create = getattr(self._model, "create_masks_for_generate", create_masks_for_generate)
        shape = torch.empty((len(self._padding), queries, 1), dtype=self._model.dtype, device=self._device)
        return create(config=self._model.config, inputs_embeds=shape, attention_mask=real, cache=cache)

    def _see_self(self, mask: Tensor | None) -> Tensor | None:
        if mask is None or mask.ndim != 4:
            return mask
        itself = torch.eye(self._columns, dtype=torch.bool, device=mask.device)
        return mask | itself if mask.dtype == torch.bool else mask.masked_fill(itself, 0)

    def _slice(self, cache: GrowingCache, layer: int) -> Tensor | None:
        if self._device.type == "cuda" and not any(self._padding):
            # Without a mask, scaled_dot_product_attention may take its flash kernel.
            return None
        length, offset = cache.get_mask_sizes(1, layer)
        return self._additive[..., offset : offset + length]
