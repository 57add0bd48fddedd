"""The objectives, as pure functions of completion tokens that lie one after another, without padding or masks.

Which tokens count, and how much, is decided once for a whole step by `sequence_weights`. A loss is the weighted sum
over any part of the step, so the sum over micro-batches does not depend on how they are cut.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from actors.learning.divergence import bounded_log_ratio, kl_estimate, sequence_means, top_k_forward_kl
from actors.learning.settings import Aggregation, LossSettings

Diagnostics = dict[str, Tensor]
"""Detached values a token, (N,), by name. The caller means, sums or compares them over a step."""


class PolicyTokens(NamedTuple):
    """The N completion tokens of S whole sequences. Floats are float32."""

    sequence: Tensor
    """(N,) int64: 0 to S - 1, in rising order."""
    weights: Tensor
    """(N,): share of each token in the step's loss."""
    advantages: Tensor
    """(N,): the advantage of the token's sequence."""
    logprobs: Tensor
    """(N,), with gradient: of the policy at the sampling temperature."""
    entropy: Tensor
    """(N,): of the policy's whole distribution; with gradient where it has a coefficient."""
    old_logprobs: Tensor
    """(N,): of the old policy of the ratio."""
    sampling_logprobs: Tensor
    """(N,): as the generator recorded them."""
    reference_logprobs: Tensor | None = None
    """(N,): of the reference policy; only where beta is above 0."""


class Surrogate(NamedTuple):
    loss: Tensor
    """(N,)"""
    low: Tensor
    """(N,) bool: the clip at 1 - epsilon took the gradient away."""
    high: Tensor
    """(N,) bool: a clip above took it away, or bounds it."""


def sequence_weights(
    lengths: Tensor, aggregation: Aggregation, rollouts: int, max_completion_tokens: int | None
) -> Tensor:
    """Return (S,) float32: the weight of each token of a sequence in the loss of the step.

    `lengths` (S,) int64 are the completion tokens of every sequence of the step that takes part in it; `rollouts` is
    the number of all that were sampled.

    * token_mean: 1 / sum of the lengths (DAPO, Yu et al. 2025, equation 8);
    * sequence_mean: 1 / (S' |o_i|), over the S' sequences that have tokens (GRPO, Shao et al. 2024, equation 3);
    * constant: 1 / (rollouts * max_completion_tokens), whatever was left out (Dr. GRPO, Liu et al. 2025).
    """
    counts = lengths.clamp(min=1).float()
    if aggregation == "token_mean":
        return torch.full_like(counts, 1 / max(1, int(lengths.sum())))
    if aggregation == "sequence_mean":
        return 1 / (counts * max(1, int((lengths > 0).sum())))
    if max_completion_tokens is None:
        raise ValueError("the constant normaliser needs max_completion_tokens")
    return torch.full_like(counts, 1 / (max(1, rollouts) * max_completion_tokens))


def clipped_surrogate(
    ratio: Tensor, advantages: Tensor, epsilon: float, epsilon_high: float, dual_clip: float | None = None
) -> Surrogate:
    """max(-r A, -clip(r, 1 - epsilon, 1 + epsilon_high) A) (Schulman et al. 2017, equation 7; clip-higher: DAPO).

    With `dual_clip` = c, at most -c A where A < 0 (Ye et al. 2020, equation 6).
    """
    plain = -ratio * advantages
    clipped = -ratio.clamp(1 - epsilon, 1 + epsilon_high) * advantages
    loss = torch.maximum(plain, clipped)
    low = (ratio < 1 - epsilon) & (advantages < 0)
    high = (ratio > 1 + epsilon_high) & (advantages > 0)
    if dual_clip is not None:
        bounded = (ratio > dual_clip) & (advantages < 0)
        loss = torch.where(bounded, -dual_clip * advantages, loss)
        high = high | bounded
    return Surrogate(loss, low, high)


def cispo_surrogate(ratio: Tensor, advantages: Tensor, logprobs: Tensor, epsilon_high: float) -> Surrogate:
    """-sg[min(r, 1 + epsilon_high)] A log pi: every token keeps a gradient, of bounded weight (MiniMax-M1, 2025,
    equations 4 and 5, without the lower bound, as its authors ran it)."""
    weight = ratio.detach().clamp(max=1 + epsilon_high)
    return Surrogate(-weight * advantages * logprobs, torch.zeros_like(ratio, dtype=torch.bool), ratio > weight)


def sequence_ratio(log_ratio: Tensor, sequence: Tensor) -> Tensor:
    """(N,) exp of the mean log-ratio of each token's sequence (GSPO, Zheng et al. 2025, equation 7)."""
    return bounded_exp(sequence_means(log_ratio, sequence))[sequence]


def bounded_exp(log_ratio: Tensor) -> Tensor:
    return bounded_log_ratio(log_ratio, torch.zeros_like(log_ratio)).exp()


def truncated_importance(trainer: Tensor, generator: Tensor, sequence: Tensor, level: str, cap: float) -> Tensor:
    """(N,) min(pi_trainer / pi_generator, cap): corrects for tokens that were drawn by other arithmetic or older
    weights than the trainer's (Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy training").

    `level` token: a ratio a token; sequence: the product over the sequence; none: 1.
    """
    if level == "none":
        return torch.ones_like(trainer)
    log_ratio = trainer - generator
    if level == "sequence":
        count = int(sequence[-1]) + 1 if len(sequence) else 0
        log_ratio = torch.zeros(count, dtype=trainer.dtype, device=trainer.device).index_add(0, sequence, log_ratio)
        log_ratio = log_ratio[sequence]
    return bounded_exp(log_ratio).clamp(max=cap)


def policy_loss(tokens: PolicyTokens, settings: LossSettings) -> tuple[Tensor, Diagnostics]:
    """The loss, a scalar with gradient: sum over tokens of weight * (rho * surrogate + beta * KL - coefficient * entropy).

    rho is the truncated importance weight between trainer and generator, 1 where the ratio is to the generator.
    """
    log_ratio = tokens.logprobs - tokens.old_logprobs
    ratio = sequence_ratio(log_ratio, tokens.sequence) if settings.objective == "gspo" else bounded_exp(log_ratio)
    if settings.objective == "cispo":
        surrogate = cispo_surrogate(ratio, tokens.advantages, tokens.logprobs, settings.epsilon_high)
    else:
        surrogate = clipped_surrogate(
            ratio, tokens.advantages, settings.epsilon, settings.epsilon_high, settings.dual_clip
        )
    importance = truncated_importance(
        tokens.old_logprobs,
        tokens.sampling_logprobs,
        tokens.sequence,
        "none" if settings.ratio_to == "generator" else settings.correction,
        settings.correction_cap,
    )
    policy = tokens.weights * importance * surrogate.loss
    diagnostics = {
        "loss/policy": policy,
        "ratio": ratio,
        "clip_ratio/low_mean": surrogate.low.float(),
        "clip_ratio/high_mean": surrogate.high.float(),
        "clip_ratio/region_mean": (surrogate.low | surrogate.high).float(),
        "sampling/is_ratio_mean": importance,
        "entropy": tokens.entropy,
    }
    loss = policy.sum()
    if tokens.reference_logprobs is not None:
        divergence = kl_estimate(tokens.logprobs, tokens.reference_logprobs, settings.kl_estimator)
        penalty = settings.beta * tokens.weights * divergence
        loss = loss + penalty.sum()
        diagnostics |= {"kl": divergence, "loss/kl": penalty}
    if settings.entropy_coef:
        bonus = -settings.entropy_coef * tokens.weights * tokens.entropy
        loss = loss + bonus.sum()
        diagnostics["loss/entropy"] = bonus
    return loss, {name: values.detach() for name, values in diagnostics.items()}


def supervised_loss(weights: Tensor, logprobs: Tensor) -> tuple[Tensor, Diagnostics]:
    """The negative log-likelihood, sum over tokens of -weight * log pi. `weights` and `logprobs` are (N,)."""
    likelihood = -weights * logprobs
    return likelihood.sum(), {"loss/supervised": likelihood.detach()}


def distillation_loss(
    weights: Tensor, logprobs: Tensor, student: Tensor, teacher: Tensor, teacher_weight: float
) -> tuple[Tensor, Diagnostics]:
    """(1 - teacher_weight) * supervised loss + teacher_weight * weighted sum of KL(teacher || student).

    `student` and `teacher` (N, K) are log-probabilities of the teacher's most probable tokens (Hinton et al. 2015).
    """
    supervised, diagnostics = supervised_loss(weights, logprobs)
    divergence = weights * top_k_forward_kl(student, teacher)
    loss = (1 - teacher_weight) * supervised + teacher_weight * divergence.sum()
    return loss, {**diagnostics, "loss/teacher_kl": divergence.detach()}
