"""Rollouts of another run, to train from without generating."""

from dataclasses import replace
from pathlib import Path

from actors.learning import RolloutGroup
from pipelines.problems import ProblemError, prompt_hash
from pipelines.records.journal import read_samples
from pipelines.records.rollouts import RolloutRecord
from pipelines.training.rollouts import as_rollout
from pipelines.training.task import PromptedProblems


class RecordedRollouts:
    """The groups of every step of the run in `folder`, with the rewards that they got there.

    They count as drawn from the weights that training begins with (policy version 0), whatever weights they came from:
    their recorded log-probabilities say how far away those were.
    """

    def __init__(self, folder: Path, problems: PromptedProblems, steps: int) -> None:
        """Raises ProblemError for a folder without rollouts of `steps` steps, and for rollouts of other prompts."""
        path = folder / "rollouts.jsonl"
        if not path.exists():
            raise ProblemError(f"{folder}:", ["has no rollouts.jsonl; --rollouts-from takes the folder of a GRPO run"])
        self._problems = problems
        self._steps: dict[int, dict[str, list[RolloutRecord]]] = {}
        for record in read_samples(path, RolloutRecord).values():
            self._steps.setdefault(record.step, {}).setdefault(record.problem_id, []).append(record)
        there = next(step for step in range(len(self._steps) + 1) if step not in self._steps)
        if there < steps:
            raise ProblemError(f"{path}:", [f"holds the rollouts of {there} steps, and grpo.steps is {steps}"])
        self._check_prompts(path)

    def groups(self, step: int) -> list[RolloutGroup]:
        """In the order of problem ids and sample indices."""
        found = []
        for problem_id, records in sorted(self._steps[step].items()):
            ordered = sorted(records, key=lambda record: record.sample_index)
            rollouts = tuple(replace(as_rollout(record), policy_version=0) for record in ordered)
            found.append(RolloutGroup(problem_id, tuple(self._problems.prompts[problem_id].token_ids), rollouts))
        return found

    def records(self, step: int) -> list[RolloutRecord]:
        return [record for records in self._steps[step].values() for record in records]

    def _check_prompts(self, path: Path) -> None:
        for groups in self._steps.values():
            for problem_id, records in groups.items():
                prompt = self._problems.prompts.get(problem_id)
                if prompt is None:
                    raise ProblemError(f"{path}:", [f"problem {problem_id} is not in {self._problems.source}"])
                if prompt_hash(prompt.token_ids) != records[0].prompt_hash:
                    message = (
                        f"the prompt of {problem_id} was another one: use the run's model, prompt and data settings"
                    )
                    raise ProblemError(f"{path}:", [message])
