"""Weights on their way from a learner to generators: plain arrays, which Ray stores once and every reader maps.

As torch tensors, Ray would pickle them: ten times slower. numpy has no bfloat16, so its bits travel as uint16.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_BITS = {torch.bfloat16: torch.uint16}


@dataclass(frozen=True, slots=True)
class Weights:
    """All weights of one policy version, by the names of the checkpoint's parameters."""

    version: int
    arrays: dict[str, npt.NDArray[np.generic]]
    dtypes: dict[str, str]
    """torch's name of each array's type."""
    checksum: int
    """CRC-32 over names and bytes, in order."""


def pack_weights(weights: Iterable[tuple[str, Tensor]], version: int) -> Weights:
    """Return `weights` as arrays; what lies on the CPU already is not copied."""
    arrays, dtypes = {}, {}
    for name, weight in weights:
        plain = weight.detach().cpu().contiguous()
        arrays[name] = plain.view(_BITS.get(plain.dtype, plain.dtype)).numpy()
        dtypes[name] = str(plain.dtype).removeprefix("torch.")
    return Weights(version, arrays, dtypes, _checksum(arrays))


def unpack_weights(weights: Weights) -> dict[str, Tensor]:
    """Return tensors of their own. Raises ValueError where a byte has changed on the way."""
    if _checksum(weights.arrays) != weights.checksum:
        raise ValueError(f"the weights of version {weights.version} were damaged on the way: their checksum differs")
    return {
        name: torch.from_numpy(array.copy()).view(getattr(torch, weights.dtypes[name]))
        for name, array in weights.arrays.items()
    }


def _checksum(arrays: dict[str, npt.NDArray[np.generic]]) -> int:
    total = 0
    for name, array in arrays.items():
        total = zlib.crc32(array.reshape(-1).view(np.uint8).data, zlib.crc32(name.encode(), total))
    return total
