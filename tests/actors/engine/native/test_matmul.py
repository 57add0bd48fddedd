"""Products by the tile unit against torch's in double precision, and against themselves in other company."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from actors.engine.native.kernels import Kernels
from actors.engine.native.matmul import TileProducts
from tests.actors.engine.native.test_attention import normal

BF16 = torch.bfloat16


@pytest.fixture(scope="module")
def tiles(kernels: Kernels) -> TileProducts:
    if not kernels.tiles.available:
        pytest.skip("this processor has no tile unit")
    return kernels.tiles


def assert_is_product(got: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> None:
    expected = functional.linear(x.double(), weight.double(), None if bias is None else bias.double())
    # One rounding to eight bits, and float32 sums of as many terms as there are inputs.
    size = functional.linear(x.double().abs(), weight.double().abs())
    assert ((got.double() - expected).abs() <= expected.abs() * 2**-8 + size * 1e-6).all()


@pytest.mark.parametrize("rows", [1, 15, 16, 17, 32, 33, 50, 64, 100])
@pytest.mark.parametrize(("inputs", "outputs"), [(32, 32), (576, 960), (40, 33), (7, 5), (96, 17)])
def test_a_product_is_that_of_double_precision_rounded(
    tiles: TileProducts, rows: int, inputs: int, outputs: int
) -> None:
    x, weight, bias = (
        normal(seed, *shape, dtype=BF16) for seed, shape in enumerate(((rows, inputs), (outputs, inputs), (outputs,)))
    )
    packed = tiles.pack(weight)
    assert_is_product(tiles.linear(x, packed, None, outputs), x, weight)
    assert_is_product(tiles.linear(x, packed, bias, outputs), x, weight, bias)


def test_more_rows_than_the_cache_holds_are_multiplied_piece_by_piece(tiles: TileProducts) -> None:
    x, weight = normal(0, 700, 1536, dtype=BF16), normal(1, 70, 1536, dtype=BF16)
    assert_is_product(tiles.linear(x, tiles.pack(weight), None, 70), x, weight)


@pytest.mark.parametrize("inputs", [576, 40])
def test_a_row_has_the_same_bits_in_any_company_and_on_any_number_of_threads(tiles: TileProducts, inputs: int) -> None:
    x, weight = normal(0, 77, inputs, dtype=BF16), normal(1, 600, inputs, dtype=BF16)
    packed = tiles.pack(weight)
    together = tiles.linear(x, packed, None, 600)
    for first, last in ((0, 1), (5, 22), (30, 77)):
        assert tiles.linear(x[first:last], packed, None, 600).equal(together[first:last])
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert tiles.linear(x, packed, None, 600).equal(together)
    finally:
        torch.set_num_threads(threads)


def test_what_is_not_finite_stays_in_its_row(tiles: TileProducts) -> None:
    x, weight = normal(0, 40, 64, dtype=BF16), normal(1, 48, 64, dtype=BF16)
    packed = tiles.pack(weight)
    expected = tiles.linear(x, packed, None, 48)
    x[3], x[39] = torch.nan, torch.inf
    got = tiles.linear(x, packed, None, 48)
    assert got[3].isnan().all() and not got[39].isfinite().any()
    others = [row for row in range(40) if row not in (3, 39)]
    assert got[others].equal(expected[others])


def test_rows_may_lie_apart(tiles: TileProducts) -> None:
    wide, weight = normal(0, 37, 200, dtype=BF16), normal(1, 48, 64, dtype=BF16)
    packed = tiles.pack(weight)
    x = wide[:, 100:164]
    assert tiles.linear(x, packed, None, 48).equal(tiles.linear(x.contiguous(), packed, None, 48))


def test_a_part_of_the_outputs_can_be_replaced(tiles: TileProducts) -> None:
    x, weight, part = normal(0, 5, 40, dtype=BF16), normal(1, 90, 40, dtype=BF16), normal(2, 37, 40)
    packed = tiles.pack(weight)
    tiles.replace(packed, part, 20, 90)
    weight[20:57] = part.to(BF16)
    assert packed.equal(tiles.pack(weight))
    assert_is_product(tiles.linear(x, packed, None, 90), x, weight)


def test_torch_multiplies_as_before_afterwards(tiles: TileProducts) -> None:
    x, weight = normal(0, 40, 64, dtype=BF16), normal(1, 48, 64, dtype=BF16)
    before = functional.linear(x, weight)
    tiles.linear(x[:3], tiles.pack(weight), None, 48)
    assert functional.linear(x, weight).equal(before)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x, packed, bias: (x.float(), packed, bias, 48),
        lambda x, packed, bias: (x.t(), packed, bias, 48),
        lambda x, packed, bias: (x[:, :32], packed, bias, 48),
        lambda x, packed, bias: (x, packed[:-1], bias, 48),
        lambda x, packed, bias: (x, packed, bias[:-1], 48),
        lambda x, packed, bias: (x, packed, bias.float(), 48),
        lambda x, packed, bias: (x, packed, bias, 100),
    ],
)
def test_what_does_not_fit_is_refused(tiles: TileProducts, wrong) -> None:
    x, bias = normal(0, 64, 64, dtype=BF16), normal(1, 48, dtype=BF16)
    packed = tiles.pack(normal(2, 48, 64, dtype=BF16))
    with pytest.raises(ValueError, match="no tile product"):
        tiles.linear(*wrong(x, packed, bias))


def test_a_part_that_does_not_fit_is_refused(tiles: TileProducts) -> None:
    packed = tiles.pack(normal(0, 48, 64, dtype=BF16))
    for first in (-1, 47):
        with pytest.raises(ValueError, match="do not fit"):
            tiles.replace(packed, normal(1, 2, 64, dtype=BF16), first, 48)
