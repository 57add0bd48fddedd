"""Whether two runs on the same problems differ: each problem is compared with itself, so its difficulty cancels out."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

RESAMPLES = 10_000
"""Draws of a bootstrap or a permutation test; the standard error of a p-value of 0.05 is then 0.002."""

SEED = 0
_TOGETHER = 2_000_000
"""Random numbers that are drawn at once, for the sake of memory."""


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Two-sided p-value of the exact McNemar test (McNemar, Psychometrika 12, 1947; exact by the binomial distribution).

    Of the problems that one run solves and the other does not, `only_first` are the first one's. If neither were better,
    each would fall to either with probability 1/2. 1.0 where there are none. Raises ValueError for a negative count.
    """
    if min(only_first, only_second) < 0:
        raise ValueError(f"counts must not be negative, got {only_first} and {only_second}")
    flips, fewer = only_first + only_second, min(only_first, only_second)
    ways, tail = 1, 1
    for chosen in range(1, fewer + 1):
        ways = ways * (flips - chosen + 1) // chosen
        tail += ways
    return float(min(Fraction(1), Fraction(2 * tail, 2**flips)))


def sign_flip_test(differences: Sequence[float], resamples: int = RESAMPLES, seed: int = SEED) -> float:
    """Two-sided p-value of the paired permutation test on the mean of `differences`, one a problem (Fisher 1935, The
    Design of Experiments, section 21).

    If both runs were alike, each difference might as well have the other sign. All combinations are counted where there
    are at most `resamples` of them, else so many are drawn, and the observed one counts as one more (Phipson and Smyth
    2010, so p is never 0). 1.0 where no difference is other than 0.
    """
    known = np.array([each for each in differences if each], dtype=np.float64)
    if not len(known):
        return 1.0
    observed = abs(known.sum()) * (1 - 1e-9)
    if 2 ** len(known) <= resamples:
        patterns = (np.arange(2 ** len(known))[:, None] >> np.arange(len(known))) & 1
        return float(np.mean(np.abs((1 - 2 * patterns) @ known) >= observed))
    rng = np.random.default_rng(seed)
    extreme = 0
    for size in _batches(resamples, len(known)):
        signs = 1 - 2 * rng.integers(0, 2, (size, len(known)))
        extreme += int(np.sum(np.abs(signs @ known) >= observed))
    return (extreme + 1) / (resamples + 1)


def bootstrap_interval(
    differences: Sequence[float], resamples: int = RESAMPLES, seed: int = SEED
) -> tuple[float, float] | None:
    """95 % interval of the mean of `differences`, one a problem; None without any.

    The percentile bootstrap (Efron 1979): problems are drawn with replacement, so that the samples of one stay together.
    """
    known: npt.NDArray[np.float64] = np.array(differences, dtype=np.float64)
    if not len(known):
        return None
    rng = np.random.default_rng(seed)
    means = [
        known[rng.integers(0, len(known), (size, len(known)))].mean(axis=1) for size in _batches(resamples, len(known))
    ]
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5])
    return float(low), float(high)


def _batches(rows: int, columns: int) -> list[int]:
    size = max(1, _TOGETHER // columns)
    return [min(size, rows - first) for first in range(0, rows, size)]
