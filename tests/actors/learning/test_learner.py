import dataclasses
import math
import random
from typing import Any

import pytest
import torch

from actors.engine.requests import Completion
from actors.learning import batches
from actors.learning.learner import Learner
from actors.learning.rollouts import Example, Rollout, RolloutGroup
from actors.learning.settings import AdvantageSettings, LearnerSettings, LossSettings, OptimizerSettings
from tests.actors.engine.tiny import EOS, tiny_model
from tests.actors.learning.cases import (
    NO_CLIPPING,
    gradient_of,
    own_learner,
    own_model,
    plain_logprobs,
    random_groups,
    relative_difference,
)

BUDGET = 9
LOSSES = {
    "dapo": LossSettings(beta=0.1, entropy_coef=0.01),
    "grpo": LossSettings(aggregation="sequence_mean"),
    "dr_grpo": LossSettings(aggregation="constant", max_completion_tokens=BUDGET),
    "gspo": LossSettings(objective="gspo", aggregation="sequence_mean", ratio_to="generator"),
    "cispo": LossSettings(objective="cispo", ratio_to="generator"),
    "generator_ratio": LossSettings(ratio_to="generator", correction="sequence"),
}


def settings(loss: LossSettings | None = None, **fields: Any) -> LearnerSettings:
    fields.setdefault("optimizer", OptimizerSettings(lr=1e-3, max_grad_norm=NO_CLIPPING))
    return LearnerSettings(loss=loss or LossSettings(), compute_dtype="float32", **fields)


def gradient(chosen: LearnerSettings, groups: list[RolloutGroup]) -> dict[str, torch.Tensor]:
    learner = own_learner(chosen)
    return gradient_of(learner, learner.step, groups)


def with_rewards(rewards: list[list[float]], **fields: Any) -> list[RolloutGroup]:
    """Random groups with these rewards, and any other field the same in all rollouts."""
    groups = random_groups(groups=len(rewards), size=len(rewards[0]))
    return [
        dataclasses.replace(
            group,
            rollouts=tuple(
                dataclasses.replace(rollout, reward=reward, **fields)
                for rollout, reward in zip(group.rollouts, row, strict=True)
            ),
        )
        for group, row in zip(groups, rewards, strict=True)
    ]


@pytest.mark.parametrize("name", LOSSES)
def test_gradient_does_not_depend_on_micro_batches_order_or_padding(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float64, where rounding cannot hide a difference; GPT-2 has no layer that computes in float32 regardless."""

    def gradient(chosen: LearnerSettings, groups: list[RolloutGroup]) -> dict[str, torch.Tensor]:
        learner = own_learner(chosen, "gpt2")
        learner.policy.base.double()
        return gradient_of(learner, learner.step, groups)

    groups = random_groups()
    bound = 1e-6 if LOSSES[name].beta else 1e-12  # the reference stays in float32
    whole = gradient(settings(LOSSES[name], token_budget=10_000), groups)
    for budget in (1, 45, 80):
        assert relative_difference(whole, gradient(settings(LOSSES[name], token_budget=budget), groups)) < bound
    apart = settings(LOSSES[name], token_budget=10_000, share_prompts=False)
    assert relative_difference(whole, gradient(apart, groups)) < bound
    turned = [dataclasses.replace(group, rollouts=group.rollouts[::-1]) for group in reversed(groups)]
    assert relative_difference(whole, gradient(settings(LOSSES[name], token_budget=45), turned)) < bound
    monkeypatch.setattr(batches, "PADDING", EOS)
    assert relative_difference(whole, gradient(settings(LOSSES[name], token_budget=10_000), groups)) < bound


@pytest.mark.parametrize("name", LOSSES)
def test_gradient_in_bfloat16_does_not_depend_on_micro_batches_but_for_rounding(name: str) -> None:
    groups = random_groups()

    def gradient(budget: int) -> dict[str, torch.Tensor]:
        chosen = dataclasses.replace(settings(LOSSES[name], token_budget=budget), compute_dtype="bfloat16")
        learner = own_learner(chosen, "llama")
        return gradient_of(learner, learner.step, groups)

    whole = gradient(10_000)
    for budget in (1, 45):
        assert relative_difference(whole, gradient(budget)) < 0.02


@pytest.mark.parametrize("temperature", [0.6, 1.0])
@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean", "constant"])
def test_gradient_is_that_of_the_textbook_one_sequence_at_a_time(temperature: float, aggregation: Any) -> None:
    """On-policy GRPO: the sum of -w rho A grad log pi, each row alone through the plain model."""
    groups = random_groups(groups=2, size=3)
    loss = LossSettings(aggregation=aggregation, max_completion_tokens=BUDGET, correction_cap=1.2)
    found = gradient(settings(loss, temperature=temperature), groups)

    model = own_model()
    lengths = [len(rollout.completion_ids) for group in groups for rollout in group.rollouts]
    for group in groups:
        rewards = torch.tensor([rollout.reward for rollout in group.rollouts], dtype=torch.float64)
        advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
        for rollout, advantage in zip(group.rollouts, advantages.tolist(), strict=True):
            logprobs = plain_logprobs(model, group.prompt_ids, rollout.completion_ids, temperature)
            gap = logprobs.detach() - torch.tensor(rollout.sampling_logprobs, dtype=torch.float64)
            denominator = {
                "token_mean": sum(lengths),
                "sequence_mean": len(lengths) * len(logprobs),
                "constant": len(lengths) * BUDGET,
            }[aggregation]
            (-(gap.exp().clamp(max=1.2) * advantage * logprobs).sum() / denominator).backward()
    plain = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    # A padding id's row of the embedding, which the plain model leaves without gradient, does not occur here.
    assert not any(EOS in (*group.prompt_ids, *group.rollouts[0].completion_ids) for group in groups)
    assert relative_difference(plain, found) < 1e-5


def test_a_step_moves_every_weight_in_its_gradients_direction_and_counts_a_version() -> None:
    learner = own_learner(settings())
    before = {name: weight.detach().clone() for name, weight in learner.policy.trained().items()}
    descent = gradient_of(learner, learner.step, random_groups())
    for name, weight in learner.policy.trained().items():
        moved = weight.detach() - before[name]
        assert (moved * descent[name]).sum() < 0, name
    assert (learner.step_count, learner.policy_version) == (1, 1)


def test_the_first_update_of_a_step_has_ratio_one_and_the_later_ones_do_not() -> None:
    groups = random_groups()
    assert own_learner(settings()).step(groups)["ratio"] == 1
    repeated = own_learner(settings(num_iterations=3)).step(groups)
    assert repeated["ratio"] != 1
    assert repeated["clip_ratio/region_mean"] > 0


def test_loss_at_the_first_step_is_about_zero_while_the_gradient_is_not() -> None:
    plain = settings(LossSettings(correction="none", aggregation="sequence_mean"))
    metrics = own_learner(plain).step(random_groups())
    assert metrics["loss/policy"] == pytest.approx(0, abs=1e-6)
    assert metrics["grad_norm"] > 1e-3


def test_repeated_steps_on_good_and_bad_answers_make_the_good_ones_likelier() -> None:
    learner = own_learner(settings())
    groups = with_rewards([[1.0, 0.0, 0.0, 1.0]] * 3)

    def likelihood(reward: float) -> float:
        return sum(
            plain_logprobs(learner.policy.base, group.prompt_ids, rollout.completion_ids, 1.0).sum().item()
            for group in groups
            for rollout in group.rollouts
            if rollout.reward == reward
        )

    before = likelihood(1.0), likelihood(0.0)
    for _ in range(5):
        learner.step(groups)
    assert likelihood(1.0) > before[0] and likelihood(0.0) < before[1]


def test_the_learning_rate_of_the_step_is_the_one_that_is_used() -> None:
    learner = own_learner(settings(optimizer=OptimizerSettings(lr=1e-3, decay="linear", total_steps=2)))
    moved = []
    for number in range(3):
        before = {name: weight.detach().clone() for name, weight in learner.policy.trained().items()}
        assert learner.step(random_groups(seed=number))["lr"] == pytest.approx((1e-3, 5e-4, 0)[number])
        now = learner.policy.trained()
        moved.append(max((now[name] - value).abs().max().item() for name, value in before.items()))
    assert moved[0] > 1.5 * moved[1] > 0
    assert moved[2] == 0


def test_clipping_bounds_the_norm_and_reports_the_one_before() -> None:
    clipped = settings(optimizer=OptimizerSettings(max_grad_norm=0.01))
    learner = own_learner(clipped)
    found: dict[str, float] = {}
    gradients = gradient_of(learner, lambda groups: found.update(learner.step(groups)), random_groups())
    norm = math.sqrt(sum(value.double().square().sum().item() for value in gradients.values()))
    assert norm == pytest.approx(0.01, rel=1e-3)
    assert found["grad_norm"] > 0.1


@pytest.mark.parametrize(
    "rewards",
    [
        pytest.param([[1.0]], id="a_group_of_one"),
        pytest.param([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]], id="all_equal"),
        pytest.param([[math.nan, math.nan]], id="no_reward_known"),
        pytest.param([[math.nan, 1.0]], id="one_reward_known"),
    ],
)
def test_what_teaches_nothing_changes_nothing_and_is_counted(rewards: list[list[float]]) -> None:
    learner = own_learner(settings(optimizer=OptimizerSettings(lr=1.0, weight_decay=0.5)))
    before = {name: weight.detach().clone() for name, weight in learner.policy.trained().items()}
    metrics = learner.step(with_rewards(rewards))
    assert metrics["update/skipped"] == 1
    assert metrics["reward/frac_zero_std_groups"] == 1
    assert metrics["groups/trained_rollouts"] == 0
    assert all(torch.equal(weight, before[name]) for name, weight in learner.policy.trained().items())
    assert (learner.step_count, learner.policy_version) == (1, 0)


def test_no_groups_at_all_skip_the_step() -> None:
    assert own_learner(settings()).step([])["update/skipped"] == 1


@pytest.mark.parametrize("name", LOSSES)
def test_a_rollout_without_reward_is_as_if_it_had_not_been_sampled(name: str) -> None:
    (group,) = random_groups(groups=1, size=4)
    unknown = dataclasses.replace(group.rollouts[1], reward=math.nan)
    with_it = dataclasses.replace(group, rollouts=(group.rollouts[0], unknown, *group.rollouts[2:]))
    without = dataclasses.replace(group, rollouts=(group.rollouts[0], *group.rollouts[2:]))
    scale = 4 / 3 if name == "dr_grpo" else 1.0  # its denominator counts all that was sampled
    one = {key: scale * value for key, value in gradient(settings(LOSSES[name]), [with_it]).items()}
    assert relative_difference(one, gradient(settings(LOSSES[name]), [without])) < 1e-6
    assert own_learner(settings(LOSSES[name])).step([with_it])["reward/frac_unknown"] == 0.25


def test_a_skipped_group_leaves_no_trace_in_the_gradient_and_a_kept_one_counts_in_the_denominator() -> None:
    live = random_groups(groups=1)
    idle = dataclasses.replace(
        random_groups(seed=5, groups=1)[0],
        rollouts=tuple(dataclasses.replace(r, reward=1.0) for r in random_groups(seed=5, groups=1)[0].rollouts),
    )
    alone = gradient(settings(), live)
    assert relative_difference(alone, gradient(settings(), [*live, idle])) < 1e-6
    keep = settings(advantages=AdvantageSettings(zero_variance_groups="keep"))
    counted, idle_tokens = (sum(len(r.completion_ids) for r in group.rollouts) for group in (live[0], idle))
    diluted = {name: value * counted / (counted + idle_tokens) for name, value in alone.items()}
    assert relative_difference(diluted, gradient(keep, [*live, idle])) < 1e-6


def test_masked_truncated_completions_leave_numerator_and_denominator_but_stay_in_the_baseline() -> None:
    (group,) = with_rewards([[1.0, 0.0, 0.5, -2.0]], truncated=False)
    cut = dataclasses.replace(group.rollouts[3], truncated=True)
    masked = dataclasses.replace(group, rollouts=(*group.rollouts[:3], cut))
    found = gradient(settings(LossSettings(mask_truncated=True)), [masked])

    model = own_model()
    rewards = torch.tensor([rollout.reward for rollout in group.rollouts], dtype=torch.float64)
    advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    total = sum(len(rollout.completion_ids) for rollout in group.rollouts[:3])
    for rollout, advantage in zip(group.rollouts[:3], advantages.tolist()[:3], strict=True):
        logprobs = plain_logprobs(model, group.prompt_ids, rollout.completion_ids, 1.0)
        gap = logprobs.detach() - torch.tensor(rollout.sampling_logprobs, dtype=torch.float64)
        (-(gap.exp().clamp(max=2.0) * advantage * logprobs).sum() / total).backward()
    plain = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    assert relative_difference(plain, found) < 1e-5

    metrics = own_learner(settings(LossSettings(mask_truncated=True))).step([masked])
    assert metrics["completions/clipped_ratio"] == 0.25
    assert metrics["completions/mean_length"] == sum(len(r.completion_ids) for r in group.rollouts) / 4


def test_a_step_whose_completions_were_all_truncated_and_masked_is_skipped() -> None:
    metrics = own_learner(settings(LossSettings(mask_truncated=True))).step(with_rewards([[1.0, 0.0]], truncated=True))
    assert metrics["update/skipped"] == 1 and metrics["completions/clipped_ratio"] == 1
    assert "completions/mean_terminated_length" not in metrics


def test_empty_completions_count_in_the_baseline_only() -> None:
    (group,) = random_groups(groups=1, size=3)
    empty = Rollout((), (), reward=-1.0)
    metrics = own_learner(settings()).step([dataclasses.replace(group, rollouts=(*group.rollouts, empty))])
    assert metrics["groups/trained_rollouts"] == 3 and metrics["update/skipped"] == 0
    assert math.isfinite(metrics["grad_norm"])


def test_the_overlong_penalty_separates_equal_rewards() -> None:
    groups = with_rewards([[1.0, 1.0, 1.0, 1.0]] * 3)
    shaped = LossSettings(max_completion_tokens=9, overlong_buffer=9)
    metrics = own_learner(settings(shaped)).step(groups)
    assert metrics["update/skipped"] == 0
    assert metrics["reward/mean"] == 1, "rewards are reported as they were given"


@pytest.mark.parametrize("kind", ["rollouts", "examples"])
def test_a_gradient_that_is_not_finite_updates_nothing(kind: str) -> None:
    learner = own_learner(settings())
    with torch.no_grad():
        learner.policy.base.get_output_embeddings().weight[3, 0] = math.inf
    before = {name: weight.detach().clone() for name, weight in learner.policy.trained().items()}
    if kind == "rollouts":
        metrics = learner.step(random_groups())
    else:
        metrics = learner.supervised_step([Example((5, 6), (7, 8))])
    assert metrics["update/skipped"] == 1 and not math.isfinite(metrics["grad_norm"])
    assert all(torch.equal(weight, before[name]) for name, weight in learner.policy.trained().items())
    assert (learner.step_count, learner.policy_version) == (1, 0)


def test_agreement_is_exact_for_the_policys_own_tokens_and_shows_stale_weights() -> None:
    model = tiny_model("llama")
    fresh = [
        dataclasses.replace(
            group,
            rollouts=tuple(
                dataclasses.replace(
                    rollout,
                    sampling_logprobs=tuple(
                        plain_logprobs(model, group.prompt_ids, rollout.completion_ids, 0.8).tolist()
                    ),
                )
                for rollout in group.rollouts
            ),
        )
        for group in random_groups()
    ]
    learner = own_learner(settings(temperature=0.8))
    first = learner.step(fresh)
    assert first["sampling/logp_difference_max"] < 1e-5
    assert first["sampling/is_ratio_mean"] == pytest.approx(1, abs=1e-5)
    stale = learner.step(fresh)
    assert stale["sampling/logp_difference_mean"] > 0.01
    assert stale["staleness/mean"] == stale["staleness/max"] == 1
    assert own_learner(settings(temperature=1.0)).step(fresh)["sampling/logp_difference_mean"] > 0.01


def test_a_rollout_of_a_future_version_is_refused() -> None:
    with pytest.raises(ValueError, match="policy version 3, but the learner is at 0"):
        own_learner(settings()).step(random_groups(version=3))


def test_a_row_beyond_the_models_context_is_refused_before_anything_changes() -> None:
    learner = own_learner(settings())
    long = Rollout((5,) * 600, (-1.0,) * 600, reward=1.0)
    group = RolloutGroup("long", (1, 2), (long, *random_groups()[0].rollouts))
    with pytest.raises(ValueError, match="602 tokens exceeds the model's context of 512"):
        learner.step([group])
    assert learner.step_count == 0


def test_the_metrics_that_users_look_for_are_there() -> None:
    groups = with_rewards([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 1.0]])
    groups = [
        dataclasses.replace(
            group, rollouts=tuple(dataclasses.replace(r, correct=r.reward == 1) for r in group.rollouts)
        )
        for group in groups
    ]
    metrics = own_learner(settings(LossSettings(beta=0.1))).step(groups)
    assert metrics["reward/frac_zero_std_groups"] == pytest.approx(2 / 3)
    assert metrics["reward/frac_all_correct"] == metrics["reward/frac_all_wrong"] == pytest.approx(1 / 3)
    assert metrics["reward/mean"] == pytest.approx(5 / 9)
    assert metrics["lr"] == 1e-3
    for name in [
        "reward/std",
        "completions/mean_length",
        "completions/max_length",
        "completions/clipped_ratio",
        "loss/policy",
        "loss/kl",
        "kl",
        "clip_ratio/low_mean",
        "clip_ratio/high_mean",
        "clip_ratio/region_mean",
        "entropy",
        "grad_norm",
        "staleness/max",
        "sampling/logp_difference_mean",
        "sampling/logp_difference_max",
        "sampling/kl",
        "sampling/is_ratio_mean",
        "time/update",
        "tokens/trained",
        "tokens/padding_share",
    ]:
        assert math.isfinite(metrics[name]), name
    assert metrics["kl"] == pytest.approx(0, abs=1e-9), "the policy has not left its reference yet"
    assert own_learner(settings(LossSettings(beta=0.1), token_budget=1)).step(groups)["entropy"] == pytest.approx(
        metrics["entropy"], rel=1e-6
    )


def test_a_failed_completion_has_no_reward() -> None:
    failed = Completion("p", 0, "", (), (), (), "error", "device lost")
    assert math.isnan(Rollout.of(failed, reward=0.0, correct=False).reward)
    cut = Completion("p", 0, "a", (5,), (-1.5,), (-1.0,), "length", policy_version=4)
    assert Rollout.of(cut, 0.5, False) == Rollout((5,), (-1.0,), 0.5, True, 4, False)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sampling_logprobs": ()}, "1 tokens and 0 log-probabilities"),
        ({"sampling_logprobs": (math.nan,)}, "finite"),
        ({"reward": math.inf}, "infinite"),
    ],
)
def test_a_rollout_that_cannot_be_right_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rollout(**{"completion_ids": (5,), "sampling_logprobs": (-1.0,), "reward": 0.0} | fields)


def test_grpo_raises_a_verifiable_reward() -> None:
    """A random model learns to write ids below 40, a tenth of them, from nothing but their share in what it wrote."""
    learner = own_learner(settings(optimizer=OptimizerSettings(lr=5e-3), temperature=1.0))
    draw = torch.Generator().manual_seed(0)
    prompts = [(5, 9), (7, 7, 7), (20,), (31, 2)]
    rewards = []
    for _ in range(20):
        groups = [sampled_group(learner, prompt, size=16, length=8, draw=draw) for prompt in prompts]
        rewards.append(learner.step(groups)["reward/mean"])
    assert sum(rewards[:3]) / 3 < 0.2
    assert sum(rewards[-3:]) / 3 > 0.6


def sampled_group(
    learner: Learner, prompt: tuple[int, ...], size: int, length: int, draw: torch.Generator
) -> RolloutGroup:
    ids = torch.tensor([prompt] * size)
    logprobs = []
    for _ in range(length):
        with torch.no_grad():
            scores = learner.policy.base(ids, use_cache=False).logits[:, -1].log_softmax(dim=-1)
        token = torch.multinomial(scores.exp(), 1, generator=draw)
        logprobs.append(scores.gather(-1, token))
        ids = torch.cat([ids, token], dim=-1)
    rollouts = []
    for row, values in zip(ids[:, len(prompt) :].tolist(), torch.cat(logprobs, dim=-1).tolist(), strict=True):
        reward = sum(token < 40 for token in row) / length
        rollouts.append(Rollout(tuple(row), tuple(values), reward, policy_version=learner.policy_version))
    return RolloutGroup(str(prompt), prompt, tuple(rollouts))


def test_shuffled_groups_give_the_same_metrics() -> None:
    groups = random_groups(groups=4)
    straight = own_learner(settings()).step(groups)
    random.Random(1).shuffle(groups)
    shuffled = own_learner(settings()).step(groups)
    for name in straight.keys() - {"time/update"}:
        assert shuffled[name] == pytest.approx(straight[name], rel=1e-5, abs=1e-6), name
