"""The record of every rollout of a training run."""

from dataclasses import dataclass

from pipelines.records.journal import SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class RolloutRecord:
    """One graded rollout, with all that the learner needs: training can be repeated from these lines alone.

    `step` counts from 0. `reward` is None where generation, grading or the user's own reward function failed. `sampling_logprobs` are of `token_ids`,
    at the sampling temperature. The rest is as in `Sample`.
    """

    step: int
    problem_id: str
    sample_index: int
    prompt_hash: str
    completion: str
    token_ids: list[int]
    sampling_logprobs: list[float]
    finish_reason: str
    answer: str | None
    gold: str
    verdict: str
    reason: str
    reward: float | None
    policy_version: int
    reward_fault: str | None = None
    """Why the user's own reward function gave none."""
    subject: str | None = None
    level: int | None = None
    unit: str = ""
    attempt: int = 1
    actor: str = ""
    first_token_s: float | None = None
    seconds: float = 0.0
    v: int = SCHEMA_VERSION

    @property
    def key(self) -> tuple[int, str, int]:
        return (self.step, self.problem_id, self.sample_index)
