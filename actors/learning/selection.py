"""Which rollouts of a step take part in its loss, with what advantage, and what a token of each weighs."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from actors.learning.advantages import Advantages, group_advantages, overlong_penalty
from actors.learning.batches import Row
from actors.learning.losses import sequence_weights
from actors.learning.rollouts import Rollout, RolloutGroup, all_rollouts
from actors.learning.settings import AdvantageSettings, LossSettings


class Selection(NamedTuple):
    """R rollouts of a step, in order."""

    rows: list[Row]
    rollouts: list[Rollout]
    advantages: Tensor
    """(R,) float32."""
    weights: Tensor
    """(R,) float32: the weight of each token of the row in the loss of the step."""
    compared: Advantages
    """Of all rollouts of the step, those left out included."""


def select(groups: Sequence[RolloutGroup], settings: AdvantageSettings, loss: LossSettings) -> Selection:
    """Compare all rollouts within their groups, then leave out what teaches nothing, then fix the denominator.

    Left out are rollouts without a reward or without tokens; those of groups of zero variance, if they are skipped;
    truncated ones, if they are masked. The denominator counts exactly what is left (see `sequence_weights`).
    """
    rollouts = all_rollouts(groups)
    number = torch.tensor([index for index, group in enumerate(groups) for _ in group.rollouts], dtype=torch.int64)
    rewards = torch.tensor([rollout.reward for rollout in rollouts], dtype=torch.float64)
    if loss.overlong_buffer is not None and loss.max_completion_tokens is not None:
        lengths = torch.tensor([len(rollout.completion_ids) for rollout in rollouts])
        rewards = rewards + overlong_penalty(lengths, loss.max_completion_tokens, loss.overlong_buffer)
    compared = group_advantages(rewards, number, settings)
    idle = compared.zero_variance[number] & (settings.zero_variance_groups == "skip")

    kept = [
        index
        for index, rollout in enumerate(rollouts)
        if rollout.completion_ids
        and not math.isnan(rollout.reward)
        and not idle[index]
        and not (loss.mask_truncated and rollout.truncated)
    ]
    rows = [Row(groups[int(number[index])].prompt_ids, rollouts[index].completion_ids) for index in kept]
    lengths = torch.tensor([len(row.completion_ids) for row in rows], dtype=torch.int64)
    return Selection(
        rows=rows,
        rollouts=[rollouts[index] for index in kept],
        advantages=compared.values[kept].float(),
        weights=sequence_weights(lengths, loss.aggregation, len(rollouts), loss.max_completion_tokens),
        compared=compared,
    )
