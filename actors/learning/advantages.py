"""From rewards to advantages: how much better a completion was than its group expected."""

from typing import NamedTuple

import torch
from torch import Tensor

from actors.learning.settings import AdvantageSettings

STD_EPSILON = 1e-4
"""Added to a standard deviation before dividing by it."""

EQUAL_REWARDS = 1e-8
"""Rewards of a group that lie within this are equal."""


class Advantages(NamedTuple):
    values: Tensor
    """(R,) float64, one a rollout; 0 where there is no reward and in groups of zero variance."""
    zero_variance: Tensor
    """(P,) bool, one a group: all known rewards are equal, or fewer than two are known."""


def group_advantages(rewards: Tensor, groups: Tensor, settings: AdvantageSettings) -> Advantages:
    """Compare each reward with those of its group.

    `rewards` (R,) float64, NaN where there is none; `groups` (R,) int64, the number of each rollout's group, from 0.
    A missing reward is left out of baseline and deviation. With n known rewards of a group:

    * mean: A_i = R_i - mean(R), GRPO (Shao et al. 2024, DeepSeekMath, section 4.1.2);
    * leave_one_out: A_i = R_i - mean of the others = n / (n - 1) (R_i - mean(R)), RLOO (Ahmadian et al. 2024);
    * scale group or batch: divided by the sample standard deviation (n - 1) of the group, or of all rewards, plus
      1e-4; none: not divided, Dr. GRPO (Liu et al. 2025).
    """
    count = int(groups.max()) + 1 if len(groups) else 0
    known = ~rewards.isnan()
    values = torch.where(known, rewards, 0.0)
    members = _sums(known.to(rewards.dtype), groups, count)
    mean = _sums(values, groups, count) / members.clamp(min=1)
    centred = torch.where(known, rewards - mean[groups], 0.0)

    edge = torch.zeros(count, dtype=rewards.dtype)
    highest = edge.scatter_reduce(0, groups[known], rewards[known], "amax", include_self=False)
    lowest = edge.scatter_reduce(0, groups[known], rewards[known], "amin", include_self=False)
    zero_variance = highest - lowest <= EQUAL_REWARDS
    advantages = torch.where(zero_variance[groups], 0.0, centred)

    others = (members - 1).clamp(min=1)
    if settings.baseline == "leave_one_out":
        advantages = advantages * (members / others)[groups]
    if settings.scale == "group":
        deviation = (_sums(centred.square(), groups, count) / others).sqrt()
        advantages = advantages / (deviation[groups] + STD_EPSILON)
    elif settings.scale == "batch" and known.sum() > 1:
        advantages = advantages / (rewards[known].std() + STD_EPSILON)
    return Advantages(advantages, zero_variance)


def overlong_penalty(lengths: Tensor, max_completion_tokens: int, buffer: int) -> Tensor:
    """What to add to the rewards of completions of `lengths` (R,) tokens: 0 up to the buffer, then falling linearly
    to -1 at `max_completion_tokens` (DAPO, Yu et al. 2025, equation 13). Float64."""
    return -((lengths.double() - (max_completion_tokens - buffer)) / buffer).clamp(0, 1)


def _sums(values: Tensor, groups: Tensor, count: int) -> Tensor:
    return torch.zeros(count, dtype=values.dtype).index_add(0, groups, values)
