"""Confidence intervals of shares, also where several samples belong to one problem."""

import math
from collections.abc import Sequence

Z_95 = 1.959963984540054
"""97.5 % quantile of the normal distribution."""


def wilson_interval(successes: float, trials: float) -> tuple[float, float] | None:
    """95 % score interval of a proportion (Wilson 1927, eq. 4 solved for p); None without trials.

    Unlike the textbook normal interval it stays inside [0, 1] and keeps its coverage near 0 and 1. Fractions are fine.
    """
    if trials == 0:
        return None
    p, z2 = successes / trials, Z_95**2
    centre = (p + z2 / (2 * trials)) / (1 + z2 / trials)
    half = Z_95 / (1 + z2 / trials) * math.sqrt(max(0.0, p * (1 - p)) / trials + z2 / (4 * trials**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def clustered_interval(scores: Sequence[float], sizes: Sequence[int]) -> tuple[float, float] | None:
    """95 % interval of the mean over all samples, where those of one problem are alike; None without samples.

    `scores[i]` is the mean, between 0 and 1, over the `sizes[i]` samples of problem i; problems count as drawn at random.
    It is Wilson's interval for as many samples as all of them are worth: their number over the design effect (Kish 1965;
    Korn and Graubard, Survey Methodology 24, 1998). The design effect is the cluster-robust variance of the mean
    (Liang and Zeger, Biometrika 73, 1986) over that of independent samples, estimated with two problems more, one with all
    samples correct and one with none. Where few problems have a correct sample, or few a wrong one, the data hardly tell
    how alike samples are; these two then take them for all alike. A problem's samples count for one at least, and for
    their number at most. So with one sample a problem this is Wilson's interval itself.
    """
    total = sum(sizes)
    if total == 0:
        return None
    successes = sum(score * size for score, size in zip(scores, sizes, strict=True))
    p, size = successes / total, total / len(sizes)
    extra = (1 - p) ** 2 + p**2
    between = sum((own * (score - p)) ** 2 for score, own in zip(scores, sizes, strict=True)) + size**2 * extra
    within = total * p * (1 - p) + size * extra
    least = total**2 / sum(own**2 for own in sizes)
    effective = min(total, max(least, total * within / between))
    return wilson_interval(successes * (effective / total), effective)
