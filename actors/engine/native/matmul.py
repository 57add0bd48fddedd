"""Matrix products by the processor's tile unit, with weights in the layout that it reads."""

import ctypes

import torch
from torch import Tensor

_POINTER, _LONG = ctypes.c_void_p, ctypes.c_int64


class TileProducts:
    """bfloat16 products of a compiled library, on processors with Intel AMX.

    A row's result is the same to the bit whatever rows are multiplied with it, and on any number of threads. Threads
    are those of torch.
    """

    def __init__(self, functions: ctypes.CDLL) -> None:
        """Raises AttributeError where `functions` is not what the build makes."""
        self._size, self._pack, self._linear = functions.packed_numbers, functions.pack_bf16, functions.linear_bf16
        self._size.restype, self._size.argtypes = _LONG, [_LONG, _LONG]
        self._pack.restype, self._pack.argtypes = None, [_POINTER, _POINTER, _LONG, _LONG, _LONG]
        self._linear.restype, self._linear.argtypes = None, [_POINTER, _LONG, *[_POINTER] * 3, _LONG, _LONG, _LONG]
        self.available = bool(functions.has_tiles())
        """Whether the processor has such a unit, and the operating system lets this process use it."""

    def pack(self, weight: Tensor) -> Tensor:
        """Return `weight` (outputs, inputs), bfloat16, packed."""
        packed = torch.zeros(self._size(*weight.shape), dtype=torch.bfloat16)
        self.replace(packed, weight, 0, len(weight))
        return packed

    def replace(self, packed: Tensor, weight: Tensor, first: int, outputs: int) -> None:
        """Write `weight` (n, inputs) into a matrix packed from (`outputs`, inputs), as its rows from `first` on.

        Raises ValueError where it does not fit.
        """
        rows, inputs = weight.shape
        if first < 0 or first + rows > outputs or packed.shape != (self._size(outputs, inputs),):
            raise ValueError(f"rows {first} to {first + rows} of {inputs} do not fit into {outputs} packed outputs")
        weight = weight.to(torch.bfloat16).contiguous()
        self._pack(weight.data_ptr(), packed.data_ptr(), first, rows, inputs)

    def linear(self, x: Tensor, packed: Tensor, bias: Tensor | None, outputs: int) -> Tensor:
        """(T, inputs) to (T, `outputs`): `x` times the weights, plus `bias` (outputs,) where there is one.

        bfloat16, summed in float32 and rounded once. `x` has any row stride but a contiguous last dimension.
        Raises ValueError for other types, shapes and layouts.
        """
        tokens, inputs = x.shape
        row_stride, step = x.stride()
        if not (
            self.available
            and x.dtype is packed.dtype is torch.bfloat16
            and x.is_cpu
            and step == 1
            and packed.is_contiguous()
            and packed.shape == (self._size(outputs, inputs),)
            and (bias is None or (bias.dtype is x.dtype and bias.shape == (outputs,) and bias.is_contiguous()))
        ):
            raise ValueError(
                f"no tile product of {tuple(x.shape)} {x.dtype} on {x.device.type}, strides {x.stride()}, with "
                f"{tuple(packed.shape)} packed numbers for {outputs} outputs"
            )
        out = x.new_empty((tokens, outputs))
        self._linear(
            x.data_ptr(),
            row_stride,
            packed.data_ptr(),
            None if bias is None else bias.data_ptr(),
            out.data_ptr(),
            tokens,
            inputs,
            outputs,
        )
        return out
