"""From a verdict to the number that reinforcement learning maximises."""

import math
from dataclasses import dataclass, fields

from grading.extract import BOXED
from grading.verdict import Outcome, Verdict


@dataclass(frozen=True, slots=True)
class RewardSettings:
    """The terms of a reward; they add up."""

    correct: float = 1.0
    wrong: float = 0.0
    """For a wrong answer and for none at all."""
    format: float = 0.0
    """For an answer in a closed box, right or wrong."""
    length_penalty: float = 0.0
    """What a correct completion loses that uses all the tokens it may have; a shorter one loses its share of it."""
    function: str | None = None
    """The user's own reward, as `module:function`."""
    function_weight: float = 1.0

    def __post_init__(self) -> None:
        """Raises `ValueError` for a weight that is no finite number and a function that is not `module:function`."""
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name != "function" and not math.isfinite(value):
                raise ValueError(f"{each.name} must be a finite number; got {value}")
        if self.function is not None:
            split_name(self.function)


def split_name(function: str) -> tuple[str, str]:
    """Module and name within it out of `module:function`; either may have dots. Raises `ValueError`."""
    module, colon, name = function.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        raise ValueError(f"a reward function is named module:function, such as my_rewards:score; got {function!r}")
    return module, name


def reward(verdict: Verdict, settings: RewardSettings, *, num_tokens: int, max_tokens: int) -> float:
    """The reward of a completion of `num_tokens` tokens that may have `max_tokens`.

    NaN, which means as if not sampled, where the grader failed (`timeout`, `error`) or the user's function did: neither
    says anything about the completion.
    """
    if verdict.outcome in (Outcome.TIMEOUT, Outcome.ERROR):
        return math.nan
    total = settings.wrong
    if verdict.correct:
        total = settings.correct - settings.length_penalty * num_tokens / max_tokens
    if verdict.extraction == BOXED:
        total += settings.format
    if settings.function is not None:
        total += settings.function_weight * (math.nan if verdict.reward is None else verdict.reward)
    return total
