"""95 % intervals hold the truth in 95 of 100 runs, with one sample a problem and with several that are alike."""

import math

import numpy as np
import pytest

from pipelines.metrics.interval import Z_95, clustered_interval, wilson_interval
from pipelines.metrics.pass_at_k import pass_at_k


def test_the_interval_solves_the_score_equation() -> None:
    """Wilson's bounds are the p at which the observed share lies 1.96 standard errors (of p) away."""
    for successes, trials in ((0, 10), (3, 10), (10, 10), (250, 500)):
        interval = wilson_interval(successes, trials)
        assert interval is not None
        for bound in interval:
            if 1e-9 < bound < 1 - 1e-9:
                distance = abs(successes / trials - bound) / math.sqrt(bound * (1 - bound) / trials)
                assert distance == pytest.approx(Z_95)
        assert 0 <= interval[0] <= successes / trials <= interval[1] + 1e-12 <= 1 + 1e-12


def test_no_trials_have_no_interval() -> None:
    assert wilson_interval(0, 0) is None
    assert clustered_interval([], []) is None


@pytest.mark.parametrize("correct", [0, 1, 13, 250, 499, 500])
def test_with_one_sample_a_problem_it_is_wilsons_to_the_bit(correct: int) -> None:
    scores = [1.0] * correct + [0.0] * (500 - correct)
    assert clustered_interval(scores, [1] * 500) == wilson_interval(correct, 500)


def test_samples_that_are_all_alike_count_as_one() -> None:
    scores = [1.0] * 30 + [0.0] * 70
    assert clustered_interval(scores, [8] * 100) == pytest.approx(wilson_interval(30, 100))


def test_samples_that_differ_within_problems_as_between_them_all_count() -> None:
    assert clustered_interval([0.25] * 100, [8] * 100) == pytest.approx(wilson_interval(200, 800))


def test_without_a_correct_sample_a_problem_counts_once() -> None:
    assert clustered_interval([0.0] * 50, [8] * 50) == wilson_interval(0, 50)


def test_bounds_hold_the_mean_and_stay_between_0_and_1() -> None:
    for scores in ([0.0] * 20, [1.0] * 20, [0.125, *[0.0] * 19], [0.5], [1.0, 0.0]):
        interval = clustered_interval(scores, [8] * len(scores))
        assert interval is not None
        assert 0 <= interval[0] <= sum(scores) / len(scores) + 1e-12
        assert sum(scores) / len(scores) - 1e-12 <= interval[1] <= 1


def coverage(truth: float, alike: float, problems: int, samples: int, runs: int = 2000) -> float:
    """Share of intervals that hold `truth`: a problem's rate is drawn from a beta distribution in which two of its samples
    correlate by `alike`.
    """
    draw = np.random.default_rng(round(1e6 * truth) + 1000 * problems + samples)
    scale = 1 / alike - 1 if alike else 1e9
    rates = draw.beta(truth * scale, (1 - truth) * scale, (runs, problems))
    scores = draw.binomial(samples, rates) / samples
    intervals = [clustered_interval(row.tolist(), [samples] * problems) for row in scores]
    return float(np.mean([low <= truth <= high for low, high in filter(None, intervals)]))


@pytest.mark.parametrize("truth", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("alike", [0.1, 0.3, 0.7])
@pytest.mark.parametrize(("problems", "samples"), [(60, 8), (300, 4)])
def test_correlated_samples_keep_the_coverage(truth: float, alike: float, problems: int, samples: int) -> None:
    assert 0.935 <= coverage(truth, alike, problems, samples) <= 0.99


@pytest.mark.parametrize("truth", [0.005, 0.02, 0.98])
@pytest.mark.parametrize("alike", [0.1, 0.5])
@pytest.mark.parametrize(("problems", "samples"), [(60, 8), (100, 64), (500, 8)])
def test_near_0_and_1_intervals_are_rather_too_wide(truth: float, alike: float, problems: int, samples: int) -> None:
    assert coverage(truth, alike, problems, samples, runs=1000) >= 0.94


def test_independent_samples_lose_little() -> None:
    assert coverage(0.3, 0, 500, 8) <= 0.96


@pytest.mark.parametrize("alike", [0.1, 0.7])
@pytest.mark.parametrize("k", [2, 4, 8])
def test_pass_at_k_has_its_coverage_too(alike: float, k: int) -> None:
    """The truth is 1 - E[(1 - p)^k] over beta-distributed p."""
    scale, truth, problems, samples, runs = 1 / alike - 1, 0.1, 300, 8, 2000
    a, b = truth * scale, (1 - truth) * scale
    true = 1 - math.prod((b + step) / (a + b + step) for step in range(k))
    draw = np.random.default_rng(k)
    scores = np.array([pass_at_k(samples, correct, k) for correct in range(samples + 1)])
    drawn = scores[draw.binomial(samples, draw.beta(a, b, (runs, problems)))]
    intervals = [clustered_interval(row.tolist(), [samples] * problems) for row in drawn]
    assert 0.935 <= np.mean([low <= true <= high for low, high in filter(None, intervals)]) <= 0.98
