"""Groups of rollouts: asked for, graded, recorded, and put together for the learner."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from actors.engine.requests import GenerationRequest, SamplingParams
from actors.learning import Rollout, RolloutGroup
from grading import Outcome, RewardSettings, Verdict, reward
from pipelines.dispatch.generated import Generated
from pipelines.problems import Problem, Prompt, prompt_hash
from pipelines.records.journal import Journal
from pipelines.records.rollouts import RolloutRecord
from pipelines.training.collection import Collection
from pipelines.training.order import batch_of_step
from pipelines.training.task import PromptedProblems

_JUDGED = (Outcome.CORRECT, Outcome.WRONG, Outcome.UNPARSED)


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What the rollouts of a step are."""

    problems_per_step: int
    num_generations: int
    seed: int
    sampling: SamplingParams
    reward: RewardSettings


class Rollouts:
    """The rollouts of every step, those of earlier sessions included: what is recorded is never generated again."""

    def __init__(self, problems: PromptedProblems, plan: GroupPlan, journal: Journal[RolloutRecord]) -> None:
        self._problems = problems
        self._plan = plan
        self._journal = journal

    def collection(self, step: int, round: int = 0) -> Collection:
        """What is still to be generated for `step`; in a later `round`, for the problems that make up for others.

        A request's name holds the step, so that a problem that comes again gets other random numbers.
        """
        chosen = self.problems_of(step, round)
        requests = [
            GenerationRequest(f"{step}/{problem.id}", index, tuple(self._problems.prompts[problem.id].token_ids))
            for problem in chosen
            for index in range(self._plan.num_generations)
            if (step, problem.id, index) not in self._journal.samples
        ]
        names = {f"{step}/{problem.id}": problem for problem in chosen}
        name = f"step-{step}" + (f"-round-{round}" if round else "")
        return Collection(name, requests, self._plan.sampling, names, lambda made: self._record(step, made))

    def groups(self, step: int, round: int = 0) -> list[RolloutGroup]:
        """The recorded groups, in the order of their problems. Raises KeyError for one that is not complete."""
        return [
            RolloutGroup(
                problem.id,
                tuple(self._problems.prompts[problem.id].token_ids),
                tuple(as_rollout(self._journal.samples[record]) for record in self._keys(step, problem.id)),
            )
            for problem in self.problems_of(step, round)
        ]

    def records(self, step: int, groups: Sequence[RolloutGroup]) -> list[RolloutRecord]:
        """The records behind `groups` of `step`."""
        return [self._journal.samples[key] for group in groups for key in self._keys(step, group.problem_id)]

    def problems_of(self, step: int, round: int) -> list[Problem]:
        stream = f"round {round}" if round else "steps"
        size = self._plan.problems_per_step
        chosen = batch_of_step(self._problems.problems, step, size, self._plan.seed, stream)
        before = {problem.id for earlier in range(round) for problem in self.problems_of(step, earlier)}
        return [problem for problem in chosen if problem.id not in before]

    def _keys(self, step: int, problem_id: str) -> Iterable[tuple[int, str, int]]:
        return ((step, problem_id, index) for index in range(self._plan.num_generations))

    def _record(self, step: int, made: Sequence[tuple[Generated, Verdict]]) -> None:
        self._journal.append(
            _rollout_record(step, item, verdict, self._problems.prompts[item.problem.id], self._reward(item, verdict))
            for item, verdict in made
        )

    def _reward(self, item: Generated, verdict: Verdict) -> float | None:
        if item.failed:
            return None
        limit = self._plan.sampling.max_new_tokens
        value = reward(verdict, self._plan.reward, num_tokens=len(item.completion.token_ids), max_tokens=limit)
        return None if math.isnan(value) else value


def as_rollout(record: RolloutRecord) -> Rollout:
    """The learner's view of a record."""
    return Rollout(
        completion_ids=tuple(record.token_ids),
        sampling_logprobs=tuple(record.sampling_logprobs),
        reward=math.nan if record.reward is None else record.reward,
        truncated=record.finish_reason == "length",
        policy_version=record.policy_version,
        correct=record.verdict == Outcome.CORRECT if record.verdict in _JUDGED else None,
    )


def teaches(group: RolloutGroup) -> bool:
    """Whether its known rewards differ."""
    return len({rollout.reward for rollout in group.rollouts if not math.isnan(rollout.reward)}) > 1


def _rollout_record(
    step: int, item: Generated, verdict: Verdict, prompt: Prompt, reward: float | None
) -> RolloutRecord:
    made, problem, timing = item.completion, item.problem, item.completion.timing
    return RolloutRecord(
        step=step,
        problem_id=problem.id,
        sample_index=made.sample_index,
        prompt_hash=prompt_hash(prompt.token_ids),
        completion=made.text,
        token_ids=list(made.token_ids),
        sampling_logprobs=list(made.sampling_logprobs),
        finish_reason=made.finish_reason,
        answer=verdict.answer,
        gold=problem.answer,
        verdict=str(verdict.outcome),
        reason=verdict.reason,
        reward=reward,
        reward_fault=verdict.reward_fault,
        policy_version=made.policy_version,
        subject=problem.subject,
        level=problem.level,
        unit=item.unit.id,
        attempt=item.unit.attempt,
        actor=item.worker,
        first_token_s=round(timing.first_token, 3) if timing else None,
        seconds=round(timing.last_token if timing else item.seconds, 3),
    )
