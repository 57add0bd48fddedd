"""Losses against loops over single tokens, written from the papers, in float64."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from actors.learning.losses import (
    PolicyTokens,
    distillation_loss,
    policy_loss,
    sequence_weights,
    supervised_loss,
    truncated_importance,
)
from actors.learning.settings import LossSettings

LENGTHS = [3, 1, 5, 2]
ADVANTAGES = [1.2, -0.7, -1.5, 0.4]
BUDGET = 8
SETTINGS = {
    "dapo": LossSettings(),
    "grpo": LossSettings(aggregation="sequence_mean", epsilon_high=0.2),
    "dr_grpo": LossSettings(aggregation="constant", max_completion_tokens=BUDGET),
    "dual_clip": LossSettings(dual_clip=1.6),
    "gspo": LossSettings(objective="gspo", aggregation="sequence_mean", epsilon=0.1, epsilon_high=0.15),
    "cispo": LossSettings(objective="cispo", epsilon_high=0.3),
    "kl": LossSettings(beta=0.3),
    "k1": LossSettings(beta=0.3, kl_estimator="k1"),
    "k2": LossSettings(beta=0.3, kl_estimator="k2"),
    "entropy": LossSettings(entropy_coef=0.05),
    "sequence_correction": LossSettings(correction="sequence", correction_cap=1.3),
    "generator_ratio": LossSettings(ratio_to="generator"),
}


def tokens_of(settings: LossSettings, seed: int = 0) -> PolicyTokens:
    """Ratios on both sides of every bound."""
    draw = torch.Generator().manual_seed(seed)
    sequence = torch.repeat_interleave(torch.arange(len(LENGTHS)), torch.tensor(LENGTHS))
    count = len(sequence)

    def values(spread: float) -> Tensor:
        return spread * torch.randn(count, dtype=torch.float64, generator=draw)

    logprobs = (values(0.5) - 2).requires_grad_()
    old = logprobs.detach() + values(0.4)
    sampling = old + values(0.4)
    weights = sequence_weights(torch.tensor(LENGTHS), settings.aggregation, len(LENGTHS), BUDGET).double()
    return PolicyTokens(
        sequence=sequence,
        weights=weights[sequence],
        advantages=torch.tensor(ADVANTAGES, dtype=torch.float64)[sequence],
        logprobs=logprobs,
        entropy=(1 + values(0.2)).requires_grad_(),
        old_logprobs=sampling if settings.ratio_to == "generator" else old,
        sampling_logprobs=sampling,
        reference_logprobs=logprobs.detach() + values(0.3) if settings.beta else None,
    )


def plain_loss(tokens: PolicyTokens, settings: LossSettings) -> tuple[Tensor, int, int]:
    """Sequence by sequence and token by token, with the denominators spelt out; and how often each clip acted."""
    total: Any = 0.0
    low = high = start = 0
    for length, advantage in zip(LENGTHS, ADVANTAGES, strict=True):
        places = range(start, start + length)
        start += length
        ratios = [(tokens.logprobs[i] - tokens.old_logprobs[i]).exp() for i in places]
        if settings.objective == "gspo":
            ratios = [sum(tokens.logprobs[i] - tokens.old_logprobs[i] for i in places).div(length).exp()] * length
        gaps = [(tokens.old_logprobs[i] - tokens.sampling_logprobs[i]).item() for i in places]
        if settings.correction == "sequence":
            gaps = [sum(gaps)] * length
        for place, ratio, gap in zip(places, ratios, gaps, strict=True):
            if settings.objective == "cispo":
                bound = min(ratio.item(), 1 + settings.epsilon_high)
                loss = -bound * advantage * tokens.logprobs[place]
                high += ratio.item() > bound
            else:
                clipped = min(max(ratio, 1 - settings.epsilon), 1 + settings.epsilon_high)
                loss = -min(ratio * advantage, clipped * advantage)
                low += advantage < 0 and ratio.item() < 1 - settings.epsilon
                high += advantage > 0 and ratio.item() > 1 + settings.epsilon_high
                if settings.dual_clip and advantage < 0:
                    high += ratio.item() > settings.dual_clip
                    loss = min(loss, torch.tensor(-settings.dual_clip * advantage, dtype=torch.float64))
            loss = loss * (min(math.exp(gap), settings.correction_cap) if settings.ratio_to == "trainer" else 1)
            if settings.beta:
                assert tokens.reference_logprobs is not None
                difference = tokens.reference_logprobs[place] - tokens.logprobs[place]
                estimates = {"k1": -difference, "k2": difference**2 / 2, "k3": difference.exp() - difference - 1}
                loss = loss + settings.beta * estimates[settings.kl_estimator]
            loss = loss - settings.entropy_coef * tokens.entropy[place]
            denominator = {
                "token_mean": sum(LENGTHS),
                "sequence_mean": len(LENGTHS) * length,
                "constant": len(LENGTHS) * BUDGET,
            }[settings.aggregation]
            total = total + loss / denominator
    return total, low, high


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("seed", range(3))
def test_loss_gradient_and_clip_counts_are_those_of_plain_loops(name: str, seed: int) -> None:
    settings = SETTINGS[name]
    tokens = tokens_of(settings, seed)
    loss, diagnostics = policy_loss(tokens, settings)
    plain, low, high = plain_loss(tokens, settings)
    torch.testing.assert_close(loss, plain, rtol=1e-6, atol=1e-9)
    inputs = (tokens.logprobs, tokens.entropy)
    ours = torch.autograd.grad(loss, inputs, allow_unused=True, materialize_grads=True)
    expected = torch.autograd.grad(plain, inputs, allow_unused=True, materialize_grads=True)
    torch.testing.assert_close(ours, expected, rtol=1e-6, atol=1e-9)
    assert diagnostics["clip_ratio/low_mean"].sum() == low
    assert diagnostics["clip_ratio/high_mean"].sum() == high
    assert sum(value.sum() for key, value in diagnostics.items() if key.startswith("loss/")).item() == pytest.approx(
        loss.item()
    )


def test_the_cases_above_reach_every_clip() -> None:
    reached = [
        plain_loss(tokens_of(SETTINGS[name], seed), SETTINGS[name])[1:] for name in SETTINGS for seed in range(3)
    ]
    assert sum(low for low, _ in reached) > 10 and sum(high for _, high in reached) > 10


@pytest.mark.parametrize("name", SETTINGS)
def test_the_loss_of_a_step_is_the_sum_over_its_parts(name: str) -> None:
    settings = SETTINGS[name]
    tokens = tokens_of(settings)
    first = tokens.sequence < 2

    def part(chosen: Tensor) -> Tensor:
        values = [None if value is None else value[chosen] for value in tokens]
        cut = PolicyTokens(*values)  # type: ignore[arg-type]
        return policy_loss(cut._replace(sequence=cut.sequence - cut.sequence.min()), settings)[0]

    torch.testing.assert_close(part(first) + part(~first), policy_loss(tokens, settings)[0])


@pytest.mark.parametrize("name", SETTINGS)
def test_an_extreme_ratio_gives_a_finite_loss_and_gradient(name: str) -> None:
    settings = SETTINGS[name]
    for shift in (-300.0, 300.0):
        tokens = tokens_of(settings)
        loss, _ = policy_loss(tokens._replace(old_logprobs=tokens.old_logprobs + shift), settings)
        (gradient,) = torch.autograd.grad(loss, tokens.logprobs)
        assert loss.isfinite() and gradient.isfinite().all()


def test_on_policy_the_loss_is_zero_and_its_gradient_is_not() -> None:
    settings = LossSettings(correction="none")
    tokens = tokens_of(settings)
    balanced = tokens.advantages - tokens.advantages.mean()
    tokens = tokens._replace(old_logprobs=tokens.logprobs.detach(), advantages=balanced)
    loss, diagnostics = policy_loss(tokens, settings)
    assert loss.item() == pytest.approx(0, abs=1e-7)
    torch.testing.assert_close(torch.autograd.grad(loss, tokens.logprobs)[0], -balanced * tokens.weights)
    assert (diagnostics["ratio"] == 1).all()


def test_weights_count_what_takes_part_and_the_constant_counts_everything() -> None:
    lengths = torch.tensor([3, 0, 5])
    assert sequence_weights(lengths, "token_mean", 9, None).tolist() == pytest.approx([1 / 8] * 3)
    assert sequence_weights(lengths, "sequence_mean", 9, None).tolist() == pytest.approx([1 / 6, 1 / 2, 1 / 10])
    assert sequence_weights(lengths, "constant", 9, 20).tolist() == pytest.approx([1 / 180] * 3)
    with pytest.raises(ValueError, match="max_completion_tokens"):
        sequence_weights(lengths, "constant", 9, None)


def test_importance_weights_are_truncated_above_and_carry_no_gradient_of_the_policy() -> None:
    tokens = tokens_of(LossSettings())
    weights = truncated_importance(tokens.old_logprobs, tokens.sampling_logprobs, tokens.sequence, "token", 1.1)
    expected = [min(math.exp(gap), 1.1) for gap in (tokens.old_logprobs - tokens.sampling_logprobs).tolist()]
    assert weights.tolist() == pytest.approx(expected)
    assert not weights.requires_grad


def test_supervised_loss_is_the_weighted_negative_log_likelihood() -> None:
    logprobs = torch.tensor([-1.0, -2.0, -4.0])
    assert supervised_loss(torch.full((3,), 1 / 3), logprobs)[0].item() == pytest.approx(7 / 3)


def test_distillation_mixes_likelihood_and_the_teachers_divergence() -> None:
    weights, own = torch.tensor([0.5, 0.5]), torch.tensor([-1.0, -3.0])
    teacher = torch.tensor([[0.5, 0.3], [0.6, 0.2]]).log()
    student = torch.tensor([[0.4, 0.4], [0.1, 0.7]]).log()
    divergences = []
    for p, q in zip(teacher.exp().tolist(), student.exp().tolist(), strict=True):
        pairs = [*zip(p, q, strict=True), (1 - sum(p), 1 - sum(q))]
        divergences.append(sum(a * math.log(a / b) for a, b in pairs))
    loss, _ = distillation_loss(weights, own, student, teacher, teacher_weight=0.25)
    assert loss.item() == pytest.approx(0.75 * 2 + 0.25 * sum(divergences) / 2, rel=1e-5)


def test_padded_textbook_grpo_gives_the_same_loss_and_gradient() -> None:
    """The formula as trainers write it: (B, T) arrays, a mask, masked means."""
    settings = replace(SETTINGS["grpo"], correction="none")
    tokens = tokens_of(settings)
    width = max(LENGTHS) + 2
    mask = torch.arange(width) < torch.tensor(LENGTHS)[:, None]
    padded = {}
    for name in ("logprobs", "old_logprobs", "advantages"):
        padded[name] = torch.full(mask.shape, 7.0, dtype=torch.float64).masked_scatter(mask, getattr(tokens, name))
    ratio = torch.exp(padded["logprobs"] - padded["old_logprobs"])
    surrogate = -torch.min(ratio * padded["advantages"], ratio.clamp(0.8, 1.2) * padded["advantages"])
    textbook = ((surrogate * mask).sum(dim=1) / mask.sum(dim=1)).mean()
    loss, _ = policy_loss(tokens, settings)
    torch.testing.assert_close(loss, textbook, rtol=1e-6, atol=1e-9)
    ours, expected = (torch.autograd.grad(value, tokens.logprobs)[0] for value in (loss, textbook))
    torch.testing.assert_close(ours, expected, rtol=1e-6, atol=1e-9)
