"""pass@k: the probability that at least one of k samples of a problem is correct."""

import math


def pass_at_k(samples: int, correct: int, k: int) -> float | None:
    """Unbiased estimate from `samples` of one problem of which `correct` are (Chen et al. 2021, arXiv 2107.03374, eq. 1):
    the share of all subsets of k samples that hold a correct one. None with fewer than k samples.

    Raises ValueError for k below 1.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    if k > samples:
        return None
    return 1.0 - math.comb(samples - correct, k) / math.comb(samples, k)


def usual_ks(samples: int) -> tuple[int, ...]:
    """1, 2, 4, … and `samples` itself."""
    powers = (2**power for power in range(samples.bit_length()))
    return tuple(sorted({*powers, samples}))
