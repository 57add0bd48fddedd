import math

import pytest
import torch

from actors.learning.advantages import group_advantages, overlong_penalty
from actors.learning.settings import AdvantageSettings

NAN = math.nan
GROUPS = [[1.0, 0.0, 0.0, 1.0], [0.5, NAN, -1.0], [2.0, 2.0, 2.0], [3.0], [NAN, NAN], [0.25, NAN], [1.0, 4.0]]


def plain(rewards: list[list[float]], baseline: str, scale: str) -> list[float]:
    """The definitions, group by group and number by number."""

    def deviation(values: list[float]) -> float:
        mean = sum(values) / len(values)
        return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))

    everything = [value for group in rewards for value in group if not math.isnan(value)]
    advantages = []
    for group in rewards:
        known = [value for value in group if not math.isnan(value)]
        for place, reward in enumerate(group):
            if math.isnan(reward) or len(set(known)) < 2:
                advantages.append(0.0)
                continue
            others = [value for other, value in enumerate(group) if other != place and not math.isnan(value)]
            compared = known if baseline == "mean" else others
            advantage = reward - sum(compared) / len(compared)
            if scale == "group":
                advantage /= deviation(known) + 1e-4
            elif scale == "batch":
                advantage /= deviation(everything) + 1e-4
            advantages.append(advantage)
    return advantages


def flat(rewards: list[list[float]]) -> tuple[torch.Tensor, torch.Tensor]:
    numbers = [number for number, group in enumerate(rewards) for _ in group]
    return torch.tensor([reward for group in rewards for reward in group], dtype=torch.float64), torch.tensor(numbers)


@pytest.mark.parametrize("baseline", ["mean", "leave_one_out"])
@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_advantages_are_those_of_plain_loops(baseline: str, scale: str) -> None:
    found = group_advantages(*flat(GROUPS), AdvantageSettings(baseline=baseline, scale=scale))
    assert found.values.tolist() == pytest.approx(plain(GROUPS, baseline, scale), abs=1e-12)


def test_groups_without_variance_are_reported_and_get_exact_zeros() -> None:
    rewards = [*GROUPS, [0.1, 0.1, 0.1], [0.3, 0.1 + 0.2]]
    found = group_advantages(*flat(rewards), AdvantageSettings())
    assert found.zero_variance.tolist() == [False, False, True, True, True, True, False, True, True]
    assert set(found.values[-5:].tolist()) == {0.0}


def test_a_group_does_not_see_its_neighbours() -> None:
    alone = group_advantages(*flat(GROUPS[:1]), AdvantageSettings()).values
    assert torch.equal(group_advantages(*flat(GROUPS), AdvantageSettings()).values[:4], alone)


def test_the_order_of_rollouts_does_not_matter() -> None:
    rewards, numbers = flat(GROUPS)
    order = torch.randperm(len(rewards), generator=torch.Generator().manual_seed(0))
    shuffled = group_advantages(rewards[order], numbers[order], AdvantageSettings()).values
    straight = group_advantages(rewards, numbers, AdvantageSettings()).values
    torch.testing.assert_close(shuffled, straight[order], rtol=0, atol=1e-12)


def test_the_overlong_penalty_falls_linearly_inside_the_buffer_and_ends_at_minus_one() -> None:
    penalty = overlong_penalty(torch.tensor([0, 80, 81, 90, 100]), max_completion_tokens=100, buffer=20)
    assert penalty.tolist() == pytest.approx([0, 0, -0.05, -0.5, -1])
