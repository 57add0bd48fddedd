"""What the learner learns from: graded completions in groups, and worked solutions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from actors.engine.requests import Completion


@dataclass(frozen=True, slots=True)
class Rollout:
    """One completion of a problem with its reward.

    Raises ValueError where log-probabilities are missing, are not finite or differ in number from the tokens.
    """

    completion_ids: tuple[int, ...]
    """Every sampled token, the end-of-sequence token included where there was one; may be empty."""
    sampling_logprobs: tuple[float, ...]
    """Log-probability of each token at the sampling temperature, as the generator computed it."""
    reward: float
    """NaN: there is none, because grading or generation failed. Such a rollout counts nowhere but in the metrics."""
    truncated: bool = False
    """It ran out of tokens."""
    policy_version: int = 0
    correct: bool | None = None
    """The verdict, where there is one. Only metrics use it."""

    def __post_init__(self) -> None:
        if len(self.completion_ids) != len(self.sampling_logprobs):
            raise ValueError(
                f"a rollout has {len(self.completion_ids)} tokens and {len(self.sampling_logprobs)} log-probabilities"
            )
        if not all(math.isfinite(value) for value in self.sampling_logprobs):
            raise ValueError("a rollout's log-probabilities must be finite")
        if math.isinf(self.reward):
            raise ValueError("a reward must be a number, or NaN where there is none; got an infinite one")

    @classmethod
    def of(cls, completion: Completion, reward: float, correct: bool | None = None) -> "Rollout":
        """The rollout of a generator's completion. One that failed to generate has no reward, whatever is given."""
        failed = completion.finish_reason == "error"
        return cls(
            completion_ids=completion.token_ids,
            sampling_logprobs=completion.sampling_logprobs,
            reward=math.nan if failed else reward,
            truncated=completion.finish_reason == "length",
            policy_version=completion.policy_version,
            correct=None if failed else correct,
        )


@dataclass(frozen=True, slots=True)
class RolloutGroup:
    """All rollouts of one problem: they share its prompt, and the group's rewards are compared with each other."""

    problem_id: str
    prompt_ids: tuple[int, ...]
    rollouts: tuple[Rollout, ...]

    def __post_init__(self) -> None:
        if not self.prompt_ids:
            raise ValueError(f"{self.problem_id}: the prompt is empty, so nothing predicts the first token")
        if not self.rollouts:
            raise ValueError(f"{self.problem_id}: a group without rollouts")


@dataclass(frozen=True, slots=True)
class TeacherTokens:
    """A teacher's most probable tokens at each position of an answer: T rows of K."""

    ids: tuple[tuple[int, ...], ...]
    logprobs: tuple[tuple[float, ...], ...]
    """Of the teacher's whole distribution at temperature 1."""

    def __post_init__(self) -> None:
        widths = {len(row) for row in (*self.ids, *self.logprobs)}
        if len(self.ids) != len(self.logprobs) or len(widths) > 1 or 0 in widths:
            raise ValueError("a teacher must give as many log-probabilities as ids, equally many at each position")


@dataclass(frozen=True, slots=True)
class Example:
    """A prompt and the answer to learn; the prompt is not learnt."""

    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]
    """With the end-of-sequence token, or the model does not learn to stop."""
    teacher: TeacherTokens | None = None

    def __post_init__(self) -> None:
        if not self.prompt_ids or not self.answer_ids:
            raise ValueError("an example needs a prompt and an answer of at least one token each")
        if self.teacher is not None and len(self.teacher.ids) != len(self.answer_ids):
            raise ValueError(
                f"an example has {len(self.answer_ids)} answer tokens, its teacher {len(self.teacher.ids)} positions"
            )


def all_rollouts(groups: Sequence[RolloutGroup]) -> list[Rollout]:
    """The rollouts of all groups, in order."""
    return [rollout for group in groups for rollout in group.rollouts]
