"""Weights arrive as they left, or not at all."""

from dataclasses import replace

import pytest
import torch

from actors.weights import pack_weights, unpack_weights

WEIGHTS = {
    "a.weight": torch.randn(5, 7),
    "b.weight": torch.randn(3, 2, dtype=torch.bfloat16),
    "c.bias": torch.randn(4, dtype=torch.float16),
    "d.scale": torch.tensor(1.5),
    "e.turned": torch.randn(6, 4).t(),
}


def test_every_type_and_shape_arrives_bit_for_bit() -> None:
    packed = pack_weights(WEIGHTS.items(), version=3)
    got = unpack_weights(packed)
    assert list(got) == list(WEIGHTS)
    for name, weight in WEIGHTS.items():
        assert got[name].dtype == weight.dtype
        assert torch.equal(got[name], weight)


def test_what_was_unpacked_is_independent_of_what_was_packed() -> None:
    source = {"a": torch.ones(3)}
    got = unpack_weights(pack_weights(source.items(), version=1))
    source["a"].zero_()
    assert got["a"].tolist() == [1, 1, 1]


def test_a_changed_byte_or_name_is_refused() -> None:
    packed = pack_weights(WEIGHTS.items(), version=3)
    damaged = {name: array.copy() for name, array in packed.arrays.items()}
    damaged["b.weight"][1, 1] += 1
    renamed = {name.replace("a.", "z."): array for name, array in packed.arrays.items()}
    for arrays in (damaged, renamed):
        with pytest.raises(ValueError, match="version 3 were damaged"):
            unpack_weights(replace(packed, arrays=arrays))
