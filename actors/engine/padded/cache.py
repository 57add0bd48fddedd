"""A key-value cache that grows in place and gives up rows and columns without copying the rest."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedConfig
from transformers.cache_utils import DummyLayer, DynamicLayer, LinearAttentionCacheLayerMixin

CHUNK = 128


class GrowingLayer(DynamicLayer):
    """One layer's keys and values, (rows, heads, columns, head size), as views of a larger store.

    transformers' own dynamic layer concatenates, and so copies everything, at each token. Here a token is written in
    place; the store is copied only when it is full, and then grows by a quarter.
    """

    def __init__(self) -> None:
        super().__init__()
        self._key_store: Tensor | None = None
        self._value_store: Tensor | None = None
        self._rows = 0
        self._first = 0
        self._end = 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.dtype, self.device = key_states.dtype, key_states.device
        self._rows = key_states.shape[0]
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append `key_states` and `value_states` (rows, heads, new, size); return views of all that is kept."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start, self._end = self._end, self._end + key_states.shape[2]
        if self._key_store is None or self._value_store is None or self._end > self._key_store.shape[2]:
            kept = start - self._first
            columns = self._end - self._first
            columns += max(CHUNK, columns // 4)
            self._key_store = _grown(self.keys, key_states, kept, columns)
            self._value_store = _grown(self.values, value_states, kept, columns)
            self._first, start, self._end = 0, kept, kept + key_states.shape[2]
        self._key_store[: self._rows, :, start : self._end] = key_states
        self._value_store[: self._rows, :, start : self._end] = value_states
        return self._look()

    def stack(self, parts: Sequence["GrowingLayer"]) -> None:
        """Take over the rows of `parts`, aligned at their ends."""
        keys, values = zip(*(part._look() for part in parts), strict=True)
        self.lazy_initialization(keys[0], values[0])
        self._rows = sum(part.shape[0] for part in keys)
        self._end = max(part.shape[2] for part in keys)
        self._key_store = _stacked(keys, self._rows, self._end)
        self._value_store = _stacked(values, self._rows, self._end)
        self._look()

    def retain(self, moves: list[tuple[int, int]], rows: int, columns: int) -> None:
        """Copy row `source` onto row `target` for each of `moves`, then keep the first `rows` rows and the last
        `columns` columns. The space comes back when the store is next copied."""
        assert self._key_store is not None
        assert self._value_store is not None
        for source, target in moves:
            for store in (self._key_store, self._value_store):
                store[target, :, self._first : self._end] = store[source, :, self._first : self._end]
        self._rows = rows
        self._first = self._end - columns
        self._look()

    def _look(self) -> tuple[Tensor, Tensor]:
        assert self._key_store is not None
        assert self._value_store is not None
        self.keys = self._key_store[: self._rows, :, self._first : self._end]
        self.values = self._value_store[: self._rows, :, self._first : self._end]
        return self.keys, self.values


class GrowingCache(DynamicCache):
    """transformers' cache for `config`, with its plain layers replaced by `GrowingLayer`.

    Sliding-window layers stay transformers' own: they hold no more than their window, so copying them is cheap.
    Raises ValueError for a layer that keeps something else than keys and values.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__(config=config)
        for layer in self.layers:
            if isinstance(layer, LinearAttentionCacheLayerMixin) or not isinstance(layer, DynamicLayer | DummyLayer):
                raise ValueError(f"{config.model_type} has layers that keep a state other than keys and values")
        self.layers = [GrowingLayer() if type(layer) is DynamicLayer else layer for layer in self.layers]
        self.is_plain = all(isinstance(layer, GrowingLayer | DummyLayer) for layer in self.layers)
        """Whether columns can be dropped and caches stacked: a sliding window keeps too little for either."""

    def stack(self, parts: Sequence["GrowingCache"]) -> None:
        """Fill this empty plain cache with the rows of `parts`, one after the other, aligned at their last columns.

        Shorter parts are filled up in front with zeros, not left as they are: even a masked value must be finite.
        """
        for index, layer in enumerate(self.layers):
            if isinstance(layer, GrowingLayer):
                layer.stack([cast(GrowingLayer, part.layers[index]) for part in parts])

    def retain(self, order: list[int], moves: list[tuple[int, int]], columns: int) -> None:
        """Keep the rows `order` names, in that order, and the last `columns` columns of each.

        `moves` says the same as `order` in (source, target) copies onto rows that leave; see `swap_order`.
        Raises ValueError when columns are dropped from a cache that is not plain.
        """
        if columns != self.get_seq_length() and not self.is_plain:
            raise ValueError("this model's cache has sliding-window layers, whose columns cannot be dropped")
        for layer in self.layers:
            if isinstance(layer, GrowingLayer):
                layer.retain(moves, len(order), columns)
            elif isinstance(layer, DynamicLayer):
                layer.batch_select_indices(torch.tensor(order, device=layer.device))


def swap_order(finished: list[bool]) -> tuple[list[int], list[tuple[int, int]]]:
    """Close the gaps that finished rows leave by moving rows from the end into them.

    Returns the rows that remain, in their new order, and the copies (source, target) that bring it about: never more
    than there are finished rows.
    """
    remaining = finished.count(False)
    order = list(range(remaining))
    gaps = [row for row in range(remaining) if finished[row]]
    sources = [row for row in range(remaining, len(finished)) if not finished[row]]
    moves = list(zip(sources, gaps, strict=True))
    for source, target in moves:
        order[target] = source
    return order, moves


def _grown(old: Tensor | None, new: Tensor, kept: int, columns: int) -> Tensor:
    rows, heads, _, size = new.shape
    store = new.new_empty((rows, heads, columns, size))
    if old is not None and kept:
        store[:, :, :kept] = old
    return store


def _stacked(parts: Sequence[Tensor], rows: int, columns: int) -> Tensor:
    _, heads, _, size = parts[0].shape
    store = parts[0].new_empty((rows, heads, columns + CHUNK, size))
    row = 0
    for part in parts:
        padding = columns - part.shape[2]
        store[row : row + len(part), :, :padding] = 0
        store[row : row + len(part), :, padding:columns] = part
        row += len(part)
    return store
