"""Attention over the pool against a plain reference, and that a row never depends on anything but its own tokens."""

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from actors.engine.native.kernels import Kernels
from tests.actors.engine.tiny import tiny_model

DTYPES = (torch.float32, torch.bfloat16)
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2}


def normal(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@dataclass
class Text:
    """Keys, values and queries of one sequence's tokens."""

    query: Tensor
    keys: Tensor
    values: Tensor

    @classmethod
    def of(
        cls, seed: int, length: int, heads: int, kv_heads: int, key_size: int, value_size: int, dtype: torch.dtype
    ) -> "Text":
        return cls(
            normal(seed, length, heads, key_size, dtype=dtype),
            normal(seed + 1000, length, kv_heads, key_size, dtype=dtype),
            normal(seed + 2000, length, kv_heads, value_size, dtype=dtype),
        )


@dataclass
class Pool:
    """A pool in which everything that nobody wrote is NaN."""

    kernels: Kernels
    like: Text
    capacity: int = 1024
    used: int = 16
    keys: Tensor = field(init=False)
    values: Tensor = field(init=False)

    def __post_init__(self) -> None:
        _, kv_heads, key_size = self.like.keys.shape
        dtype = self.like.keys.dtype
        self.keys = torch.full((kv_heads, self.capacity, key_size), torch.nan, dtype=dtype)
        self.values = torch.full((kv_heads, self.capacity, self.like.values.shape[-1]), torch.nan, dtype=dtype)

    def write(self, text: Text, start: int = 0, end: int | None = None) -> int:
        """Store the tokens from `start` to `end` as one run; return where it begins."""
        keys, values = text.keys[start:end], text.values[start:end]
        begin = self.used
        slots = torch.arange(begin, begin + len(keys), dtype=torch.int32)
        self.kernels.store_kv(keys, values, self.keys, self.values, slots)
        self.used = begin + (len(keys) + 31) // 16 * 16
        return begin

    def attend(self, query: Tensor, sequences: list[list[int]], **options: Any) -> Tensor:
        out = torch.full((*query.shape[:2], self.values.shape[-1]), 7.0, dtype=query.dtype)
        options = {"scale": 0.2, **options}
        self.kernels.attend(
            query, self.keys, self.values, out, torch.tensor(sequences, dtype=torch.int32).view(-1, 6), **options
        )
        return out


def reference(
    text: Text, rows: int, *, scale: float = 0.2, softcap: float = 0.0, window: int = 0, sinks: Tensor | None = None
) -> Tensor:
    """The last `rows` rows' attention, in float64."""
    length, heads, _ = text.query.shape
    group = heads // text.keys.shape[1]
    query = text.query[length - rows :].double().transpose(0, 1)
    keys, values = (x.double().transpose(0, 1).repeat_interleave(group, 0) for x in (text.keys, text.values))
    scores = query @ keys.transpose(1, 2) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    distance = torch.arange(length - rows, length)[:, None] - torch.arange(length)
    visible = (distance >= 0) & (distance < (window or length))
    scores = scores.masked_fill(~visible, -torch.inf)
    if sinks is not None:
        scores = torch.cat((scores, sinks.double()[:, None, None].expand(-1, rows, 1)), -1)
    return (scores.softmax(-1)[..., :length] @ values).transpose(0, 1)


def assert_close(got: Tensor, expected: Tensor) -> None:
    tolerance = TOLERANCE[got.dtype]
    torch.testing.assert_close(got.double(), expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("heads", "kv_heads", "key_size", "value_size"),
    [
        (4, 4, 8, 8),
        (3, 1, 16, 16),
        (6, 2, 24, 40),
        (9, 3, 64, 64),
        (8, 1, 128, 128),
        (16, 1, 64, 80),
        (10, 2, 48, 17),
        (11, 1, 6, 1),
        (2, 2, 192, 128),
    ],
)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"softcap": 3.0},
        {"window": 5},
        {"window": 16},
        {"sinks": True},
        {"softcap": 2.0, "window": 21, "sinks": True},
    ],
    ids=str,
)
def test_attention_is_that_of_the_definition(
    kernels: Kernels, heads: int, kv_heads: int, key_size: int, value_size: int, dtype: torch.dtype, options: Any
) -> None:
    options = dict(options)
    if "sinks" in options:
        options["sinks"] = normal(5, heads)
    cases = [(1, 1), (5, 1), (16, 16), (17, 3), (33, 33), (64, 2), (100, 1)]
    texts = [Text.of(i, length, heads, kv_heads, key_size, value_size, dtype) for i, (length, _) in enumerate(cases)]
    pool = Pool(kernels, texts[0])
    sequences, queries, first_row = [], [], 0
    for text, (length, rows) in zip(texts, cases, strict=True):
        shared = min(length // 2 // 16 * 16, 32)
        prefix = pool.write(text, 0, shared) if shared else 0
        sequences.append([first_row, rows, length, prefix, shared, pool.write(text, shared)])
        queries.append(text.query[length - rows :])
        first_row += rows
    got = pool.attend(torch.cat(queries), sequences, **options)
    for text, (first, rows, *_) in zip(texts, sequences, strict=True):
        assert_close(got[first : first + rows], reference(text, rows, **options))


def test_softcap_is_accurate_to_the_last_digits(kernels: Kernels) -> None:
    scores = torch.linspace(-4, 4, 1001)
    # One query head a score; the first key gives 0, the second the score; only the second carries a value.
    query = torch.stack((scores, torch.zeros_like(scores)), -1).expand(2, -1, -1)
    text = Text(query, torch.tensor([[[0.0, 0.0]], [[1.0, 0.0]]]), torch.tensor([[[0.0]], [[1.0]]]))
    pool = Pool(kernels, text)
    got = pool.attend(query, [[0, 2, 2, 0, 0, pool.write(text)]], scale=1.0, softcap=1.0)[1, :, 0]
    torch.testing.assert_close(got.double(), scores.double().tanh().sigmoid(), atol=3e-7, rtol=0)


# A row's own tokens are all that counts


SHAPES = [(9, 3, 64, 64), (16, 1, 32, 24), (4, 4, 8, 8)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("options", [{}, {"window": 20, "softcap": 2.0}], ids=str)
def test_a_row_is_the_same_to_the_bit_in_a_batch_in_pieces_and_behind_a_shared_prefix(
    kernels: Kernels, shape: tuple[int, int, int, int], dtype: torch.dtype, options: Any
) -> None:
    text, other = Text.of(1, 77, *shape, dtype), Text.of(2, 30, *shape, dtype)
    pool = Pool(kernels, text)
    own, prefix = pool.write(text), pool.write(text, 0, 48)
    rest, beside = pool.write(text, 48), pool.write(other)
    whole = pool.attend(text.query, [[0, 77, 77, 0, 0, own]], **options)
    assert_close(whole, reference(text, 77, **options))

    alone = pool.attend(text.query, [[row, 1, row + 1, 0, 0, own] for row in range(77)], **options)
    assert alone.equal(whole)
    pieces = [[0, 5, 5, 0, 0, own], [5, 40, 45, 0, 0, own], [45, 32, 77, prefix, 48, rest]]
    assert pool.attend(text.query, pieces, **options).equal(whole)
    crowd = pool.attend(
        torch.cat((other.query, text.query)), [[0, 30, 30, 0, 0, beside], [30, 77, 77, prefix, 48, rest]], **options
    )
    assert crowd[30:].equal(whole)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_number_of_threads_does_not_change_a_bit(kernels: Kernels, dtype: torch.dtype) -> None:
    text = Text.of(1, 300, 9, 3, 64, 64, dtype)
    pool = Pool(kernels, text)
    own = pool.write(text)
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        if threads > 1 and kernels.thread_count() == 1:
            pytest.skip("the library was built for one thread")
        results.append(pool.attend(text.query, [[0, 300, 300, 0, 0, own]]))
    assert results[1].equal(results[0])
    assert results[2].equal(results[0])


@pytest.mark.parametrize("options", [{}, {"window": 3}], ids=str)
def test_a_value_that_is_not_finite_spoils_only_the_rows_that_see_it(kernels: Kernels, options: Any) -> None:
    text = Text.of(1, 40, 3, 3, 16, 16, torch.float32)
    text.values[20] = torch.inf
    pool = Pool(kernels, text)
    got = pool.attend(text.query, [[0, 40, 40, 0, 0, pool.write(text)]], **options)
    spoiled = [not row.isfinite().all() for row in got]
    last = 20 + options.get("window", 20)
    assert spoiled == [20 <= row < last for row in range(40)]


def test_rows_of_no_sequence_stay_as_they_are(kernels: Kernels) -> None:
    text = Text.of(1, 4, 2, 2, 8, 8, torch.float32)
    pool = Pool(kernels, text)
    own = pool.write(text)
    assert pool.attend(text.query, []).eq(7).all()
    got = pool.attend(text.query, [[2, 1, 3, 0, 0, own], [0, 0, 0, 0, 0, 0]])
    assert got[[0, 1, 3]].eq(7).all()
    assert_close(got[2:3], reference(text, 2)[:1])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_queries_may_lie_as_transformers_hands_them_over(kernels: Kernels, dtype: torch.dtype) -> None:
    text = Text.of(1, 20, 6, 2, 16, 16, dtype)
    pool = Pool(kernels, text)
    own = pool.write(text)
    as_given = text.query.transpose(0, 1).contiguous()[None]  # (1, Hq, T, D)
    got = pool.attend(as_given[0].transpose(0, 1), [[0, 20, 20, 0, 0, own]])
    assert got.equal(pool.attend(text.query, [[0, 20, 20, 0, 0, own]]))


def test_the_window_is_that_of_transformers(kernels: Kernels) -> None:
    from transformers.masking_utils import create_sliding_window_causal_mask

    config = tiny_model("mistral_window_8").config
    mask = create_sliding_window_causal_mask(
        config=config,
        inputs_embeds=torch.zeros(1, 30, config.hidden_size),
        attention_mask=torch.ones(1, 30, dtype=torch.long),
        cache=None,
        position_ids=torch.arange(30)[None],
    )
    assert mask is not None
    visible = mask[0, 0] if mask.dtype == torch.bool else mask[0, 0] == 0
    text = Text.of(1, 30, 2, 1, 8, 30, torch.float32)
    text.values[:, 0] = torch.eye(30)  # so that the result is the row of weights
    pool = Pool(kernels, text)
    weights = pool.attend(text.query, [[0, 30, 30, 0, 0, pool.write(text)]], window=config.sliding_window)
    assert (weights[:, 0] > 0).equal(visible)


# What is refused


@pytest.mark.parametrize(
    "sequence",
    [
        [0, 5, 5, 0, 0, 16],
        [0, 4, 3, 0, 0, 16],
        [1, 4, 4, 0, 0, 16],
        [-1, 1, 4, 0, 0, 16],
        [0, 1, 4, 0, 0, 8],
        [0, 1, 4, 0, 0, 1024],
        [0, 1, 1024, 0, 0, 16],
        [0, 1, 40, -16, 16, 16],
        [0, 1, 40, 0, 8, 16],
        [0, 1, 4, 1024, 16, 0],
        [0, -1, 4, 0, 0, 16],
    ],
    ids=str,
)
def test_a_sequence_outside_its_tensors_is_refused(kernels: Kernels, sequence: list[int]) -> None:
    text = Text.of(1, 4, 2, 2, 8, 8, torch.float32)
    with pytest.raises(ValueError, match="sequence 1 reaches outside"):
        Pool(kernels, text).attend(text.query, [[0, 0, 0, 0, 0, 0], sequence])


def test_wrong_shapes_types_and_layouts_are_refused(kernels: Kernels) -> None:
    text = Text.of(1, 4, 2, 2, 8, 8, torch.float32)
    pool = Pool(kernels, text)
    good = {
        "query": text.query,
        "keys": pool.keys,
        "values": pool.values,
        "out": torch.empty(4, 2, 8),
        "sequences": torch.zeros(1, 6, dtype=torch.int32),
    }
    kernels.attend(**good, scale=1.0)
    wrong = {
        "query": [text.query.bfloat16(), text.query[..., ::2], text.query[:, :1], text.query.half()],
        "keys": [pool.keys[:, :40], pool.keys[..., :6], pool.keys.transpose(1, 2).contiguous().transpose(1, 2)],
        "values": [pool.values[:, :16], pool.values.double(), pool.values.to("meta")],
        "out": [torch.empty(4, 2, 9), torch.empty(4, 2, 16)[..., ::2]],
        "sequences": [torch.zeros(1, 6, dtype=torch.int64), torch.zeros(1, 5, dtype=torch.int32)],
    }
    for name, tensors in wrong.items():
        for tensor in tensors:
            with pytest.raises(ValueError, match="attend cannot take"):
                kernels.attend(**{**good, name: tensor}, scale=1.0)
    with pytest.raises(ValueError, match="weight"):
        kernels.attend(**good, scale=1.0, sinks=torch.zeros(3))
