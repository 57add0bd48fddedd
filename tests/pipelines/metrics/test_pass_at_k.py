"""pass@k is the share of all subsets of k samples that hold a correct one."""

from itertools import combinations
from statistics import mean

import pytest

from pipelines.metrics.pass_at_k import pass_at_k, usual_ks


@pytest.mark.parametrize("samples", range(1, 9))
def test_it_is_the_mean_over_all_subsets(samples: int) -> None:
    for correct in range(samples + 1):
        outcomes = [True] * correct + [False] * (samples - correct)
        for k in range(1, samples + 1):
            expected = mean(any(subset) for subset in combinations(outcomes, k))
            assert pass_at_k(samples, correct, k) == pytest.approx(expected)


def test_it_is_unbiased() -> None:
    """Over every way that independent samples may turn out, it is 1 - (1 - p)^k on average."""
    from math import comb

    p, samples = 0.3, 6
    for k in range(1, samples + 1):
        chances = [comb(samples, c) * p**c * (1 - p) ** (samples - c) for c in range(samples + 1)]
        average = sum(chance * (pass_at_k(samples, c, k) or 0) for c, chance in enumerate(chances))
        assert average == pytest.approx(1 - (1 - p) ** k)


def test_with_fewer_than_k_samples_it_is_undefined() -> None:
    assert pass_at_k(3, 3, 4) is None
    assert pass_at_k(0, 0, 1) is None
    with pytest.raises(ValueError, match="at least 1"):
        pass_at_k(3, 1, 0)


def test_many_samples_are_no_trouble() -> None:
    assert pass_at_k(10_000, 1, 5_000) == pytest.approx(0.5)


def test_the_usual_ks_are_powers_of_two_and_all_samples() -> None:
    assert [usual_ks(samples) for samples in (1, 2, 6, 8)] == [(1,), (1, 2), (1, 2, 4, 6), (1, 2, 4, 8)]
