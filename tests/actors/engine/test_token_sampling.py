import math

import numpy as np
import pytest
import torch

from actors.engine import native
from actors.engine.requests import SamplingParams
from actors.engine.sampling import inverse_cdf, row_key, sample, uniforms
from tests.actors.engine.reference import kept_tokens

FOUR = torch.tensor([0.5, 0.25, 0.15, 0.1]).log()


@pytest.fixture(params=["torch", "native"])
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "torch":
        monkeypatch.setattr(native, "load", lambda: None)
    elif native.load() is None:
        pytest.skip(f"no native kernels here: {native.unavailable_reason()}")


of_both_implementations = pytest.mark.usefixtures("implementation")


def draws(probabilities: torch.Tensor, params: SamplingParams, count: int, vocab_limit: int | None = None) -> set[int]:
    """Every id that comes out when the unit interval is swept evenly."""
    sweep = torch.linspace(0, 1, count + 1, dtype=torch.float64)[:-1]
    return set(sample(probabilities.expand(count, -1), params, sweep, vocab_limit).ids.tolist())


# Uniform numbers


def split_mix_64(key: int, position: int) -> float:
    mask = 2**64 - 1
    state = (key + (position + 1) * 0x9E3779B97F4A7C15) & mask
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & mask
    return ((state ^ (state >> 31)) >> 11) / 2**53


def test_uniforms_are_split_mix_64_in_plain_integers() -> None:
    keys = [0, 1, 2**64 - 1, row_key(0, "a", 0), row_key(7, "b", 3)]
    got = uniforms(np.array(keys, dtype=np.uint64), np.array([0, 1, 2, 1000, 2**40], dtype=np.uint64))
    assert got.tolist() == [split_mix_64(k, p) for k, p in zip(keys, [0, 1, 2, 1000, 2**40], strict=True)]


def test_split_mix_64_gives_its_published_sequence() -> None:
    # The first outputs for seed 1234567, as the generator's reference implementation prints them.
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    keys = np.full(4, 1234567, dtype=np.uint64)
    assert uniforms(keys, np.arange(4, dtype=np.uint64)).tolist() == [(value >> 11) / 2**53 for value in published]


def test_uniforms_are_uniform_and_uncorrelated() -> None:
    count = 200_000
    keys = np.array([row_key(0, "problem", index) for index in range(20)], dtype=np.uint64).repeat(count // 20)
    positions = np.tile(np.arange(count // 20, dtype=np.uint64), 20)
    numbers = uniforms(keys, positions)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    histogram, _ = np.histogram(numbers, bins=100, range=(0, 1))
    chi_square = ((histogram - count / 100) ** 2 / (count / 100)).sum()
    assert 60 < chi_square < 150  # 99 degrees of freedom: within 3.5 standard deviations
    by_sample = numbers.reshape(20, -1)
    assert np.abs(np.corrcoef(by_sample) - np.eye(20)).max() < 0.05
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.02


def test_row_keys_tell_seeds_problems_and_samples_apart() -> None:
    triples = [
        (seed, problem, index)
        for seed in (0, 1, 12, -1, 2**70)
        for problem in ("", "1", "2", "1 2", "12", "2 ", "\0", "é", "\ud800")
        for index in (0, 1, 2, 12, 21)
    ]
    assert len({row_key(*triple) for triple in triples}) == len(triples)


def test_groups_of_one_seed_never_repeat_a_stream() -> None:
    keys = np.array([row_key(5, f"problem {p}", s) for p in range(50) for s in range(8)], dtype=np.uint64)
    streams = np.stack([uniforms(keys, np.full(len(keys), n, dtype=np.uint64)) for n in range(64)], axis=1)
    assert len(np.unique(streams)) == streams.size


# Greedy


@of_both_implementations
def test_greedy_takes_the_largest_logit_and_the_lowest_id_among_equals() -> None:
    logits = torch.randn(200, 3000, generator=torch.Generator().manual_seed(0)).round()
    got = sample(logits, SamplingParams())
    assert got.ids.tolist() == np.argmax(logits.numpy(), axis=-1).tolist()
    assert torch.allclose(got.logprobs, logits.log_softmax(-1).gather(-1, got.ids[:, None])[:, 0], atol=1e-6)
    assert got.logprobs.equal(got.sampling_logprobs)


@of_both_implementations
@pytest.mark.parametrize("temperature", [1e-6, 1e-20, 1e-38, 5e-324])
def test_vanishing_temperature_is_greedy_without_overflow(temperature: float) -> None:
    logits = torch.randn(64, 1000, generator=torch.Generator().manual_seed(1)) * 30
    uniform = torch.rand(64, dtype=torch.float64)
    got = sample(logits, SamplingParams(temperature=temperature), uniform)
    assert got.ids.equal(logits.argmax(-1))
    assert got.logprobs.isfinite().all()
    assert got.sampling_logprobs.equal(torch.zeros(64))


@of_both_implementations
def test_huge_temperature_is_uniform() -> None:
    assert draws(FOUR, SamplingParams(temperature=1e30), 400) == {0, 1, 2, 3}


# Filters


@of_both_implementations
@pytest.mark.parametrize(
    ("top_p", "kept"),
    [(0.0, {0}), (0.3, {0}), (0.5, {0}), (0.51, {0, 1}), (0.75, {0, 1}), (0.9, {0, 1, 2}), (0.999, {0, 1, 2, 3})],
)
def test_top_p_keeps_the_boundary_token_and_at_least_one(top_p: float, kept: set[int]) -> None:
    assert draws(FOUR, SamplingParams(temperature=1, top_p=top_p), 5000) == kept


@of_both_implementations
@pytest.mark.parametrize(("top_k", "kept"), [(1, {0}), (2, {0, 1}), (4, {0, 1, 2, 3}), (9, {0, 1, 2, 3})])
def test_top_k_keeps_k(top_k: int, kept: set[int]) -> None:
    assert draws(FOUR, SamplingParams(temperature=1, top_k=top_k), 5000) == kept


@of_both_implementations
def test_ties_with_the_last_token_of_top_k_and_top_p_are_kept() -> None:
    tied = torch.tensor([0.4, 0.2, 0.2, 0.2]).log()
    assert draws(tied, SamplingParams(temperature=1, top_k=2), 1000) == {0, 1, 2, 3}
    assert draws(tied, SamplingParams(temperature=1, top_p=0.5), 1000) == {0, 1, 2, 3}


@of_both_implementations
@pytest.mark.parametrize(("min_p", "kept"), [(0.19, {0, 1, 2, 3}), (0.25, {0, 1, 2}), (0.4, {0, 1}), (1.0, {0})])
def test_min_p_is_relative_to_the_most_probable_token(min_p: float, kept: set[int]) -> None:
    assert draws(FOUR, SamplingParams(temperature=1, min_p=min_p), 5000) == kept


@of_both_implementations
@pytest.mark.parametrize("size", [4, 511, 512, 513, 2000])
@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.7),
        SamplingParams(temperature=1.3, top_k=20),
        SamplingParams(temperature=1, top_p=0.8),
        SamplingParams(temperature=3, top_p=0.95),
        SamplingParams(temperature=1, top_k=30, top_p=0.6),
        SamplingParams(temperature=1, top_k=2000, top_p=0.97, min_p=0.02),
    ],
    ids=repr,
)
def test_kept_set_equals_that_of_a_plain_implementation(params: SamplingParams, size: int) -> None:
    logits = torch.randn(3, size, generator=torch.Generator().manual_seed(size))
    for row in logits:
        kept = kept_tokens(row.double().numpy(), params)
        # Uniforms in the middle of each kept token's stretch of the CDF reach every one of them, and nothing else.
        weights = (row.double() / params.temperature).softmax(-1).numpy() * kept
        cdf = np.cumsum(weights) / weights.sum()
        middles = torch.tensor((cdf - weights / weights.sum() / 2)[kept])
        got = sample(row.expand(len(middles), -1), params, middles)
        assert got.ids.tolist() == np.flatnonzero(kept).tolist()


def test_order_and_boundaries_are_those_of_transformers() -> None:
    from transformers import (
        LogitsProcessorList,
        MinPLogitsWarper,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    logits = torch.randn(20, 3000, generator=torch.Generator().manual_seed(2)) * 2
    params = SamplingParams(temperature=0.8, top_k=100, top_p=0.85, min_p=0.02)
    warpers = [TemperatureLogitsWarper(0.8), TopKLogitsWarper(100), TopPLogitsWarper(0.85), MinPLogitsWarper(0.02)]
    theirs = LogitsProcessorList(warpers)(torch.zeros(20, 1, dtype=torch.long), logits).isfinite()
    ours = np.stack([kept_tokens(row.double().numpy(), params) for row in logits])
    assert theirs.numpy().tolist() == ours.tolist()


# Inverse CDF


def test_zero_weights_are_never_drawn() -> None:
    generator = torch.Generator().manual_seed(3)
    weights = torch.rand(1000, 1000, generator=generator) * (torch.rand(1000, 1000, generator=generator) < 0.02)
    weights[:, 500] = 1e-30
    for _ in range(1000):
        ids = inverse_cdf(weights, torch.rand(1000, dtype=torch.float64, generator=generator))
        assert (weights.gather(-1, ids[:, None]) > 0).all()


@pytest.mark.parametrize("only", [0, 1, 511, 512, 700, 999])
@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2.0**-53])
def test_a_single_possible_token_is_drawn_whatever_the_number(only: int, uniform: float) -> None:
    weights = torch.zeros(1, 1000)
    weights[0, only] = 1e-7
    assert inverse_cdf(weights, torch.tensor([uniform], dtype=torch.float64)).item() == only


def test_the_largest_uniform_number_draws_the_last_possible_token() -> None:
    weights = torch.rand(500, 5000, generator=torch.Generator().manual_seed(4))
    weights[:, 4321:] = 0
    ids = inverse_cdf(weights, torch.full((500,), 1 - 2.0**-53, dtype=torch.float64))
    assert ids.unique().tolist() == [4320]


@of_both_implementations
def test_a_number_on_the_boundary_of_two_tokens_draws_the_second() -> None:
    quarters = torch.arange(4, dtype=torch.float64) / 4
    assert sample(torch.zeros(4, 4), SamplingParams(temperature=1), quarters).ids.tolist() == [0, 1, 2, 3]


@of_both_implementations
def test_draws_follow_the_distribution() -> None:
    logits = torch.randn(1500, generator=torch.Generator().manual_seed(5))
    count = 100_000
    numbers = torch.from_numpy(uniforms(np.full(count, 9, dtype=np.uint64), np.arange(count, dtype=np.uint64)))
    ids = torch.cat(
        [sample(logits.expand(5000, -1), SamplingParams(temperature=1), part).ids for part in numbers.split(5000)]
    )
    expected = logits.softmax(-1) * count
    chi_square = ((torch.bincount(ids, minlength=1500) - expected) ** 2 / expected).sum().item()
    assert abs(chi_square - 1499) < 4 * math.sqrt(2 * 1499)


# Vocabulary limit, log-probabilities, bad logits


@of_both_implementations
@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(),
        SamplingParams(temperature=5),
        SamplingParams(temperature=1e-6),
        SamplingParams(temperature=5, top_p=0.99, top_k=90, min_p=0.001),
    ],
    ids=repr,
)
def test_padded_vocabulary_columns_are_never_drawn(params: SamplingParams) -> None:
    logits = torch.randn(100, generator=torch.Generator().manual_seed(6))
    logits[80:] += 6
    drawn = draws(logits, params, 10_000, vocab_limit=80)
    assert max(drawn) < 80
    assert sample(logits[None], SamplingParams(temperature=1e-6), torch.tensor([0.5]), 80).ids == logits[:80].argmax()


@of_both_implementations
def test_logprobs_are_of_the_whole_raw_and_tempered_distribution() -> None:
    logits = torch.randn(50, 700, generator=torch.Generator().manual_seed(7)).bfloat16()
    params = SamplingParams(temperature=0.6, top_k=5, top_p=0.5)
    got = sample(logits, params, torch.rand(50, dtype=torch.float64), vocab_limit=600)
    chosen = got.ids[:, None]
    assert torch.allclose(got.logprobs, logits.float().log_softmax(-1).gather(-1, chosen)[:, 0], atol=1e-5)
    assert torch.allclose(
        got.sampling_logprobs, (logits.float() / 0.6).log_softmax(-1).gather(-1, chosen)[:, 0], atol=1e-5
    )
    assert got.logprobs.dtype == got.sampling_logprobs.dtype == torch.float32


@of_both_implementations
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("params", [SamplingParams(), SamplingParams(temperature=1, top_p=0.9, min_p=0.1)], ids=repr)
def test_a_row_of_bad_logits_is_seen_and_leaves_its_neighbours_alone(bad: float, params: SamplingParams) -> None:
    logits = torch.randn(3, 600, generator=torch.Generator().manual_seed(8))
    uniform = torch.rand(3, dtype=torch.float64)
    good = sample(logits, params, uniform)
    logits[1, 5 if bad != -math.inf else slice(None)] = bad
    got = sample(logits, params, uniform)
    assert got.logprobs.isfinite().tolist() == [True, False, True]
    assert got.ids[[0, 2]].equal(good.ids[[0, 2]])
    assert 0 <= got.ids[1] < 600


@of_both_implementations
def test_columns_of_minus_infinity_are_fine() -> None:
    logits = torch.randn(8, 600)
    logits[:, 100:] = -math.inf
    got = sample(logits, SamplingParams(temperature=1, top_p=0.99), torch.rand(8, dtype=torch.float64))
    assert (got.ids < 100).all()
    assert got.logprobs.isfinite().all()


@of_both_implementations
def test_a_row_draws_the_same_whatever_rows_stand_beside_it() -> None:
    logits = torch.randn(40, 9000, generator=torch.Generator().manual_seed(9))
    uniform = torch.rand(40, dtype=torch.float64)
    for params in (SamplingParams(temperature=1), SamplingParams(temperature=2, top_p=0.9)):
        together = sample(logits, params, uniform)
        order = torch.randperm(40)
        assert sample(logits[order], params, uniform[order]).ids.equal(together.ids[order])
        alone = [sample(logits[i : i + 1], params, uniform[i : i + 1]).ids.item() for i in range(40)]
        assert alone == together.ids.tolist()


def test_negative_temperature_is_refused() -> None:
    with pytest.raises(ValueError, match="temperature"):
        SamplingParams(temperature=-1)
