"""The metrics of a step, by the names that users of such trainers look for."""

import math
import statistics
from collections.abc import Sequence

import torch

from actors.learning.losses import Diagnostics
from actors.learning.rollouts import RolloutGroup, all_rollouts
from actors.learning.selection import Selection

SUMMED = "loss/"
"""Diagnostics under this name are already weighted: they add up over a step. All others are means over its tokens."""

UNREPORTED = ("logprobs", "sampling_logprobs")


def mean_diagnostics(parts: Sequence[Diagnostics]) -> dict[str, float]:
    """What the micro-batches of a step reported, over the whole step: no part weighs more for being cut smaller."""
    metrics = {}
    for name in parts[0]:
        if name not in UNREPORTED:
            values = torch.cat([part[name] for part in parts]).double()
            metrics[name] = (values.sum() if name.startswith(SUMMED) else values.mean()).item()
    return metrics


def rollout_metrics(groups: Sequence[RolloutGroup], policy_version: int) -> dict[str, float]:
    """Lengths, truncation and staleness of all rollouts, whether they take part in the loss or not."""
    rollouts = all_rollouts(groups)
    if not rollouts:
        return {}
    lengths = [len(rollout.completion_ids) for rollout in rollouts]
    ended = [len(rollout.completion_ids) for rollout in rollouts if not rollout.truncated]
    metrics = {
        "completions/mean_length": _mean(lengths),
        "completions/max_length": float(max(lengths)),
        "completions/clipped_ratio": 1 - len(ended) / len(rollouts),
    }
    # What failed to generate is of no version.
    staleness = [policy_version - rollout.policy_version for rollout in rollouts if rollout.completion_ids]
    if staleness:
        metrics |= {"staleness/mean": _mean(staleness), "staleness/max": float(max(staleness))}
    if ended:
        metrics["completions/mean_terminated_length"] = _mean(ended)
    return metrics


def reward_metrics(groups: Sequence[RolloutGroup], selection: Selection) -> dict[str, float]:
    """Rewards as they were given, and what became of the groups.

    A group is all correct or all wrong where every verdict is known and says so, whatever the rewards.
    """
    rollouts = all_rollouts(groups)
    known = [rollout.reward for rollout in rollouts if not math.isnan(rollout.reward)]
    metrics = {
        "groups/total": float(len(groups)),
        "groups/trained_rollouts": float(len(selection.rows)),
    }
    if groups:
        verdicts = [{rollout.correct for rollout in group.rollouts} for group in groups]
        metrics |= {
            "reward/frac_unknown": 1 - len(known) / len(rollouts),
            "reward/frac_zero_std_groups": selection.compared.zero_variance.double().mean().item(),
            "reward/frac_all_correct": _mean([found == {True} for found in verdicts]),
            "reward/frac_all_wrong": _mean([found == {False} for found in verdicts]),
        }
    if known:
        metrics["reward/mean"] = _mean(known)
        metrics["reward/std"] = statistics.stdev(known) if len(known) > 1 else 0.0
    return metrics


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
