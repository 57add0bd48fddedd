"""Rollouts of fixed pseudo-random content, learners of tiny models, and the gradient a step descends along."""

import copy
import math
import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from actors.learning.learner import Learner
from actors.learning.rollouts import Rollout, RolloutGroup
from actors.learning.settings import LearnerSettings
from tests.actors.engine.tiny import VOCABULARY, tiny_model

NO_CLIPPING = 1e9


def own_model(architecture: str = "llama") -> PreTrainedModel:
    """A tiny model that a test may change."""
    return copy.deepcopy(tiny_model(architecture))


def own_learner(settings: LearnerSettings, architecture: str = "llama") -> Learner:
    return Learner(own_model(architecture), settings)


def random_groups(
    seed: int = 0, groups: int = 3, size: int = 4, longest: int = 9, version: int = 0
) -> list[RolloutGroup]:
    """Groups whose rewards, lengths and log-probabilities all vary."""
    draw = random.Random(seed)

    def tokens(count: int) -> tuple[int, ...]:
        return tuple(draw.randrange(VOCABULARY) for _ in range(count))

    def rollout() -> Rollout:
        length = draw.randint(1, longest)
        return Rollout(
            tokens(length),
            tuple(-math.log(VOCABULARY) + draw.uniform(-1, 1) for _ in range(length)),
            reward=draw.uniform(-1, 2),
            truncated=length == longest,
            policy_version=version,
        )

    return [
        RolloutGroup(f"problem {index}", tokens(draw.randint(1, 6)), tuple(rollout() for _ in range(size)))
        for index in range(groups)
    ]


def gradient_of(learner: Learner, step: Any, batch: Sequence[Any]) -> dict[str, Tensor]:
    """The gradient that `step(batch)` hands to the optimiser, after clipping."""
    seen: dict[str, Tensor] = {}

    def record(*_: Any) -> None:
        for name, weight in learner.policy.trained().items():
            assert weight.grad is not None
            seen[name] = weight.grad.clone()

    hook = learner.optimizer.register_step_pre_hook(record)
    step(batch)
    hook.remove()
    return seen


def relative_difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The norm of the difference of two gradients, as a share of the norm of the first."""
    assert one.keys() == other.keys()
    apart = sum((one[name] - other[name]).double().square().sum().item() for name in one)
    return math.sqrt(apart / sum(value.double().square().sum().item() for value in one.values()))


def plain_logprobs(
    model: PreTrainedModel, prompt: Sequence[int], completion: Sequence[int], temperature: float
) -> Tensor:
    """(T,) with gradient: one row, no padding, all logits, nothing shared with the code under test."""
    logits = model(torch.tensor([[*prompt, *completion]]), use_cache=False).logits[0].double() / temperature
    scored = logits[len(prompt) - 1 : -1].log_softmax(dim=-1)
    return scored[torch.arange(len(completion)), torch.tensor(completion)]
