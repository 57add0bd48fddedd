"""The paired statistics equal those of scipy and statsmodels."""

import random

import numpy as np
import pytest

from pipelines.metrics.paired import bootstrap_interval, mcnemar_exact, sign_flip_test

stats = pytest.importorskip("scipy.stats")
RANDOM = random.Random(7)
COUNTS = [
    (0, 0),
    (0, 1),
    (5, 5),
    (0, 40),
    (1200, 1290),
    *((RANDOM.randrange(60), RANDOM.randrange(60)) for _ in range(40)),
]


@pytest.mark.parametrize(("first", "second"), COUNTS)
def test_mcnemar_equals_statsmodels_and_the_binomial_test(first: int, second: int) -> None:
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    expected = tables.mcnemar([[3, first], [second, 4]], exact=True).pvalue
    assert mcnemar_exact(first, second) == pytest.approx(1.0 if np.isnan(expected) else expected, rel=1e-9)
    if first + second:
        assert mcnemar_exact(first, second) == pytest.approx(stats.binomtest(first, first + second).pvalue, rel=1e-9)


def test_mcnemar_refuses_negative_counts() -> None:
    with pytest.raises(ValueError, match="negative"):
        mcnemar_exact(-1, 2)


@pytest.mark.parametrize("seed", range(8))
def test_bootstrap_equals_scipy_draw_by_draw(seed: int) -> None:
    rng = np.random.default_rng(seed)
    differences = rng.choice([-1, -0.25, 0, 0.5, 1], size=rng.integers(2, 900), p=[0.1, 0.2, 0.3, 0.2, 0.2])
    expected = stats.bootstrap(
        (differences,), np.mean, n_resamples=3000, method="percentile", rng=np.random.default_rng(seed)
    ).confidence_interval
    assert bootstrap_interval(differences.tolist(), resamples=3000, seed=seed) == pytest.approx(
        tuple(expected), abs=1e-12
    )


@pytest.mark.parametrize("seed", range(6))
def test_all_sign_flips_are_counted_as_scipy_counts_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    differences = np.round(rng.normal(0.2, 1, size=rng.integers(1, 13)), 2)
    expected = stats.permutation_test((differences,), np.sum, permutation_type="samples", n_resamples=np.inf).pvalue
    assert sign_flip_test(differences.tolist()) == pytest.approx(expected)


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.1, 0.2])
def test_drawn_sign_flips_agree_with_scipy_within_their_error(shift: float) -> None:
    differences = np.random.default_rng(3).normal(shift, 1, size=300)
    expected = stats.permutation_test(
        (differences,), np.sum, permutation_type="samples", n_resamples=20000, rng=np.random.default_rng(1)
    ).pvalue
    assert sign_flip_test(differences.tolist()) == pytest.approx(expected, abs=0.015)


def test_sign_flips_of_single_samples_are_mcnemar() -> None:
    for first, second in [(3, 9), (0, 6), (5, 5), (1, 12)]:
        differences = [1.0] * first + [-1.0] * second + [0.0] * 50
        assert sign_flip_test(differences) == pytest.approx(mcnemar_exact(first, second))


def test_nothing_to_compare() -> None:
    assert bootstrap_interval([]) is None
    assert bootstrap_interval([0.0, 0.0]) == (0.0, 0.0)
    assert sign_flip_test([0.0, 0.0]) == sign_flip_test([]) == 1.0
