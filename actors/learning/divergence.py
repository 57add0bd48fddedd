"""Distances between distributions of which only some log-probabilities are known."""

import torch
from torch import Tensor

from actors.learning.settings import Estimator

LOG_RATIO_BOUND = 20.0
"""Log-ratios are clamped to this before `exp`. Clamping afterwards would turn inf into a NaN gradient."""

SMALLEST_TAIL = 1e-6
"""Float32 cannot tell a smaller rest of a distribution from rounding."""


def bounded_log_ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """log(p / q) of two log-probabilities, within ±20."""
    return (numerator - denominator).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)


def kl_estimate(logprobs: Tensor, other: Tensor, estimator: Estimator) -> Tensor:
    """Estimate KL(policy || other), in nats, at each token that was drawn from the policy. Same shape as the inputs.

    With d = log other - log policy (Schulman 2020, "Approximating KL divergence"): k1 = -d, unbiased, may be
    negative; k2 = d^2 / 2, biased, of low variance; k3 = exp(d) - d - 1, unbiased, never negative.
    As losses they differ: the expected gradient of k1 is zero, that of k2 is the divergence's own.
    """
    difference = bounded_log_ratio(other, logprobs)
    if estimator == "k1":
        return -difference
    if estimator == "k2":
        return difference.square() / 2
    return difference.exp() - difference - 1


def top_k_forward_kl(student: Tensor, teacher: Tensor) -> Tensor:
    """KL(teacher || student) in nats, (N,), from log-probabilities (N, K) of the teacher's K most probable tokens.

    All other tokens count as one: sum_k p_k log(p_k / q_k) + p_rest log(p_rest / q_rest). It is a divergence itself,
    at least 0 and at most the full one (data processing inequality), and 0 only where the student gives all K tokens
    the teacher's probabilities.
    """
    inside = (teacher.exp() * (teacher - student)).sum(dim=-1)
    teacher_rest, student_rest = _rest(teacher), _rest(student)
    return inside + teacher_rest * (teacher_rest / student_rest).log()


def _rest(logprobs: Tensor) -> Tensor:
    return (1 - logprobs.exp().sum(dim=-1)).clamp(min=SMALLEST_TAIL)


def agreement(trainer: Tensor, generator: Tensor) -> dict[str, float]:
    """Compare log-probabilities (N,) of the same tokens, as trained on and as sampled.

    Returns the mean and the largest absolute difference in nats, and the k3 estimate of KL(generator || trainer).
    """
    difference = (trainer - generator).abs()
    return {
        "sampling/logp_difference_mean": difference.mean().item(),
        "sampling/logp_difference_max": difference.max().item(),
        "sampling/kl": kl_estimate(generator, trainer, "k3").mean().item(),
    }


def sequence_means(values: Tensor, sequence: Tensor) -> Tensor:
    """(S,) the mean of `values` (N,) over each sequence; `sequence` (N,) int64 holds 0 to S - 1 in rising order."""
    count = int(sequence[-1]) + 1 if len(sequence) else 0
    sums = torch.zeros(count, dtype=values.dtype, device=values.device).index_add(0, sequence, values)
    return sums / torch.bincount(sequence, minlength=count).clamp(min=1)
