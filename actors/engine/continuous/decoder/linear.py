"""Linear layers that are read from memory together, in the layout that the processor's matrix product likes."""

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from actors.engine.native.matmul import TileProducts

PACKING_ROWS = 64
"""Rows for which torch's CPU library chooses its layout; on current processors it is the same for any number."""


class FusedLinear:
    """Several linear layers of the same input as one matrix product, their outputs side by side.

    It takes the layers' weights over: where it packs them the layers are left empty, unless `keep` says that others
    still use them; elsewhere the layers' own become parts of the joint one. `names` are the checkpoint's names of the
    layers' weights, without `.weight`.
    """

    def __init__(
        self, names: list[str], layers: list[nn.Linear], tiles: TileProducts | None = None, keep: bool = False
    ) -> None:
        self._rows: dict[str, slice] = {}
        start = 0
        for name, layer in zip(names, layers, strict=True):
            self._rows[name] = slice(start, start + layer.out_features)
            start += layer.out_features
        self._columns = layers[0].in_features
        weight = (
            torch.cat([layer.weight.detach() for layer in layers]) if len(layers) > 1 else layers[0].weight.detach()
        )
        self._bias = torch.cat([layer.bias.detach() for layer in layers]) if layers[0].bias is not None else None
        self._matrix = _laid_out(weight, tiles)
        for layer, rows in zip(layers, self._rows.values(), strict=True):
            if isinstance(self._matrix, _Plain):
                layer.weight.data = weight[rows]
            elif not keep:
                layer.weight.data = layer.weight.new_empty(0)
            if layer.bias is not None:
                layer.bias.data = self._bias[rows]

    def __call__(self, x: Tensor) -> Tensor:
        """(T, in) to (T, all outputs)."""
        return self._matrix.multiply(x, self._bias)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """What `update` takes: the shape of each weight and bias by its name."""
        shapes: dict[str, tuple[int, ...]] = {}
        for name, rows in self._rows.items():
            shapes[f"{name}.weight"] = (rows.stop - rows.start, self._columns)
            if self._bias is not None:
                shapes[f"{name}.bias"] = (rows.stop - rows.start,)
        return shapes

    @torch.no_grad()
    def update(self, weights: Mapping[str, Tensor]) -> None:
        """Copy in those of `weights` that are its own."""
        new = [(rows, weights[f"{name}.weight"]) for name, rows in self._rows.items() if f"{name}.weight" in weights]
        if new:
            self._matrix.replace(new)
        for name, rows in self._rows.items():
            if self._bias is not None and f"{name}.bias" in weights:
                self._bias[rows] = weights[f"{name}.bias"].to(self._bias)


class _Matrix(Protocol):
    """A weight (outputs, inputs) in some layout."""

    def multiply(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """(T, inputs) to (T, outputs)."""
        ...

    def replace(self, parts: list[tuple[slice, Tensor]]) -> None:
        """Put each tensor in place of those rows."""
        ...


class _Plain:
    def __init__(self, weight: Tensor) -> None:
        self._weight = weight

    def multiply(self, x: Tensor, bias: Tensor | None) -> Tensor:
        return functional.linear(x, self._weight, bias)

    def replace(self, parts: list[tuple[slice, Tensor]]) -> None:
        for rows, part in parts:
            self._weight[rows] = part.to(self._weight)


class _Tiled:
    """For the tile unit of the processor."""

    def __init__(self, weight: Tensor, tiles: TileProducts) -> None:
        self._tiles = tiles
        self._outputs = len(weight)
        self._packed = tiles.pack(weight)

    def multiply(self, x: Tensor, bias: Tensor | None) -> Tensor:
        return self._tiles.linear(x, self._packed, bias, self._outputs)

    def replace(self, parts: list[tuple[slice, Tensor]]) -> None:
        for rows, part in parts:
            self._tiles.replace(self._packed, part, rows.start, self._outputs)


class _Reordered:
    """For torch's CPU library, in a layout of its own."""

    def __init__(self, weight: Tensor) -> None:
        self._packed = _reorder(weight)

    def multiply(self, x: Tensor, bias: Tensor | None) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self._packed, bias, "none", [], "")

    def replace(self, parts: list[tuple[slice, Tensor]]) -> None:
        weight = self._packed.to_dense()
        for rows, part in parts:
            weight[rows] = part.to(weight)
        self._packed = _reorder(weight)


def _laid_out(weight: Tensor, tiles: TileProducts | None) -> _Matrix:
    if weight.device.type == "cpu" and weight.dtype is torch.bfloat16 and tiles is not None and tiles.available:
        return _Tiled(weight, tiles)
    if can_reorder(weight):
        return _Reordered(weight)
    return _Plain(weight)


def _reorder(weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), PACKING_ROWS)


def can_reorder(weight: Tensor) -> bool:
    """Whether torch's CPU library keeps this weight in a layout of its own, and multiplies by it rightly."""
    if weight.device.type != "cpu" or weight.dtype not in (torch.float32, torch.bfloat16):
        return False
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    try:
        part, x = weight[:32].detach().clone(), torch.ones((2, weight.shape[1]), dtype=weight.dtype)
        matrix = _Reordered(part)
        return torch.equal(matrix._packed.to_dense(), part) and torch.allclose(
            matrix.multiply(x, None), functional.linear(x, part), rtol=0.05, atol=0.01
        )
    except (RuntimeError, NotImplementedError):
        return False
