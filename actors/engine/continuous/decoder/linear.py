"""Linear layers that are read from memory together, in the layout that the processor's matrix product likes."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

PACKING_ROWS = 64
"""Rows for which the layout is chosen; on current processors it is the same for any number."""


class FusedLinear:
    """Several linear layers of the same input as one matrix product, their outputs side by side.

    It takes the layers' weights over: on a CPU they are packed and the layers left empty, elsewhere the layers' own
    become parts of the joint one. `names` are the checkpoint's names of the layers' weights, without `.weight`.
    """

    def __init__(self, names: list[str], layers: list[nn.Linear], keep: bool = False) -> None:
        self._rows: dict[str, slice] = {}
        start = 0
        for name, layer in zip(names, layers, strict=True):
            self._rows[name] = slice(start, start + layer.out_features)
            start += layer.out_features
        self._columns = layers[0].in_features
        self._weight = (
            torch.cat([layer.weight.detach() for layer in layers]) if len(layers) > 1 else layers[0].weight.detach()
        )
        self._bias = torch.cat([layer.bias.detach() for layer in layers]) if layers[0].bias is not None else None
        self._packs = can_pack(self._weight)
        for layer, rows in zip(layers, self._rows.values(), strict=True):
            if self._packs and not keep:
                layer.weight.data = layer.weight.new_empty(0)
            elif not self._packs:
                layer.weight.data = self._weight[rows]
            if layer.bias is not None:
                layer.bias.data = self._bias[rows]
        self._pack()

    def __call__(self, x: Tensor) -> Tensor:
        """(T, in) to (T, all outputs)."""
        if self._packs:
            return torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")
        return functional.linear(x, self._weight, self._bias)

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
        new = {name: rows for name, rows in self._rows.items() if f"{name}.weight" in weights}
        if new:
            plain = self._weight.to_dense() if self._packs else self._weight
            for name, rows in new.items():
                plain[rows] = weights[f"{name}.weight"].to(plain)
            self._weight = plain
            self._pack()
        for name, rows in self._rows.items():
            if self._bias is not None and f"{name}.bias" in weights:
                self._bias[rows] = weights[f"{name}.bias"].to(self._bias)

    def _pack(self) -> None:
        if self._packs:
            self._weight = torch.ops.mkldnn._reorder_linear_weight(self._weight.contiguous(), PACKING_ROWS)


def can_pack(weight: Tensor) -> bool:
    """Whether torch's CPU library keeps this weight in a layout of its own, and multiplies by it rightly."""
    if weight.device.type != "cpu" or weight.dtype not in (torch.float32, torch.bfloat16):
        return False
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    try:
        part, x = weight[:32].detach().clone(), torch.ones((2, weight.shape[1]), dtype=weight.dtype)
        packed = torch.ops.mkldnn._reorder_linear_weight(part, PACKING_ROWS)
        found = torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")
        return torch.equal(packed.to_dense(), part) and torch.allclose(
            found, functional.linear(x, part), rtol=0.05, atol=0.01
        )
    except (RuntimeError, NotImplementedError):
        return False
