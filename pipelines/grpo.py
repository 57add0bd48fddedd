"""Group relative policy optimisation with verifiable rewards (GRPO: Shao et al. 2024, DeepSeekMath).

For every step: take some problems; draw a group of completions of each; grade them; let the learner make the graded
groups into one update; bring its weights to the generators. Now and then, evaluate and save.
"""

from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from actors.engine.requests import SamplingParams
from actors.learner import LearnedStep
from actors.learning import RolloutGroup
from grading import RewardSettings
from pipelines.config import GrpoConfig
from pipelines.dispatch.signals import StopFlag
from pipelines.dispatch.work import FatalError
from pipelines.exit_codes import ExitCode
from pipelines.records.journal import Journal, read_samples
from pipelines.records.problems import write_problems
from pipelines.records.rollouts import RolloutRecord
from pipelines.records.run_folder import open_run_folder
from pipelines.task import run_folder_path
from pipelines.terminal.console import Console
from pipelines.tracking.tracker import tracked
from pipelines.training.collection import Collection
from pipelines.training.course import Course
from pipelines.training.crew import Crew, crew_of
from pipelines.training.recorded import RecordedRollouts
from pipelines.training.rollouts import GroupPlan, Rollouts, teaches
from pipelines.training.session import resumable
from pipelines.training.task import TrainingTask, prepare_training


def train(config: GrpoConfig, console: Console, stop: StopFlag, command: str) -> tuple[dict[str, Any], ExitCode]:
    """Run, or resume, the training that `config` describes; returns its summary and the exit code."""
    with open_run_folder(run_folder_path(config, "grpo")) as folder:
        task = prepare_training(config, console)
        course = Course(config, task, folder, console, stop, command, config.grpo.steps)
        write_problems(folder.problems_path, task.train.problems)
        rollouts = folder.path / "rollouts.jsonl"
        with tracked(config.tracking, "grpo", folder, console) as tracker:
            if not course.complete:
                with (
                    closing(Journal(rollouts, RolloutRecord)) as journal,
                    crew_of(
                        config,
                        task.subject.model,
                        folder.path,
                        config.grpo.num_generations,
                        console,
                        stop,
                        course.incidents,
                        course.progress,
                        weights_bytes=4 * task.subject.approximate_parameters,
                        reward=config.reward.function,
                        generating=config.grpo.rollouts_from is None or config.evaluation.every > 0,
                    ) as crew,
                ):
                    resumable(crew, course, Grpo(config, task, journal, crew, course).run)
            summary, code = course.conclude()
            problems = {problem.id: problem for problem in task.train.problems}
            tracker.conclude(code, lambda: read_samples(rollouts, RolloutRecord).values(), problems)
        return summary, code


class Grpo:
    """The algorithm over the actors of `crew`."""

    def __init__(
        self, config: GrpoConfig, task: TrainingTask, journal: Journal[RolloutRecord], crew: Crew, course: Course
    ) -> None:
        self._config = config.grpo
        self._crew = crew
        self._course = course
        plan = GroupPlan(
            config.grpo.problems_per_step,
            config.grpo.num_generations,
            config.grpo.seed,
            SamplingParams(**dict(config.sampling)),
            RewardSettings(**dict(config.reward)),
        )
        self.rollouts = Rollouts(task.train, plan, journal)
        self._recorded = (
            RecordedRollouts(Path(config.grpo.rollouts_from).expanduser(), task.train, config.grpo.steps)
            if config.grpo.rollouts_from
            else None
        )
        self._advantages = course.lines("advantages.jsonl")
        self._version = 0
        """Of the learner's weights."""
        self._begun: dict[int, Collection] = {}
        """Steps whose rollouts are on their way, or there."""

    def run(self, first: int) -> None:
        """All steps from `first` on, which the learner has not made yet."""
        self._begun.clear()
        self._version = self._crew.share_weights()
        self._course.evaluate_if_due(self._crew, first)
        for step in range(first, self._config.steps):
            with self._course.step(step + 1) as report:
                with report.timed("generate"):
                    groups = self._groups(step)
                with report.timed("learn"):
                    learned: LearnedStep = self._crew.learn("step", groups)
                with report.timed("sync"):
                    self._version = self._crew.share_weights()
                report |= learned.metrics | self._grading_metrics(step, groups)
                self._note(step, groups, learned)
            self._course.evaluate_if_due(self._crew, step + 1)
            self._course.save_if_due(self._crew, step + 1)

    def _groups(self, step: int) -> list[RolloutGroup]:
        """The groups of `step`; those of the next steps are begun as far ahead as staleness may go.

        The learner has made `step` updates by now. What begins here is of these weights or newer ones, and is learnt
        from after at most `max_staleness` more.
        """
        if self._recorded:
            return self._recorded.groups(step)
        for ahead in range(step, min(step + self._config.max_staleness + 1, self._config.steps)):
            if ahead not in self._begun:
                self._begun[ahead] = self.rollouts.collection(ahead)
                self._crew.begin(self._begun[ahead])
        self._crew.collect(self._begun.pop(step))
        groups = self.rollouts.groups(step)
        if self._config.refill_rounds:
            groups += self._refilled(step, groups)
        self._check_staleness(step, groups)
        return groups

    def _refilled(self, step: int, groups: list[RolloutGroup]) -> list[RolloutGroup]:
        """Groups of other problems, until as many teach something as a step has problems, or the rounds are used up."""
        found: list[RolloutGroup] = []
        teaching = sum(map(teaches, groups))
        for round in range(1, self._config.refill_rounds + 1):
            missing = self._config.problems_per_step - teaching - len(found)
            if missing <= 0:
                break
            collection = self.rollouts.collection(step, round)
            self._crew.begin(collection)
            self._crew.collect(collection)
            found += [group for group in self.rollouts.groups(step, round) if teaches(group)][:missing]
        return found

    def _check_staleness(self, step: int, groups: list[RolloutGroup]) -> None:
        """Raises FatalError where a rollout is of older weights than the configuration allows."""
        versions = [rollout.policy_version for group in groups for rollout in group.rollouts if rollout.completion_ids]
        stale = self._version - min(versions, default=self._version)
        if stale > self._config.max_staleness:
            raise FatalError(
                f"a rollout of step {step + 1} is {stale} versions older than the policy, and grpo.max_staleness is "
                f"{self._config.max_staleness}. The run folder's rollouts.jsonl does not belong to its checkpoints."
            )

    def _grading_metrics(self, step: int, groups: list[RolloutGroup]) -> dict[str, float]:
        """What became of the rollouts of a step in generators and graders."""
        records = self._recorded.records(step) if self._recorded else self.rollouts.records(step, groups)
        verdicts = Counter(record.verdict for record in records)
        faults = [record.reward_fault for record in records if record.reward_fault]
        if faults:
            self._course.console.warn(f"{len(faults)} of {len(records)} rollouts got no reward: {faults[0]}")
        return {
            "tokens/generated": 0.0 if self._recorded else float(sum(len(record.token_ids) for record in records)),
            **{f"grading/{name}_frac": verdicts[name] / len(records) for name in ("unparsed", "timeout", "error")},
            "reward/function_fault_frac": len(faults) / len(records),
        }

    def _note(self, step: int, groups: list[RolloutGroup], learned: LearnedStep) -> None:
        names = [group.problem_id for group in groups]
        self._advantages.append({"step": step + 1, "advantages": list(zip(names, learned.advantages, strict=True))})
        difference = learned.metrics.get("sampling/logp_difference_mean", 0.0)
        if difference > self._config.logp_warning:
            self._course.console.warn(
                f"generator and trainer give the sampled tokens log-probabilities that differ by {difference:.3g} on "
                f"average, above grpo.logp_warning={self._config.logp_warning:g}: the generators' weights are stale, or "
                "the two compute in different precision"
            )


def describe(config: GrpoConfig) -> str:
    """What `train` would do, for --dry-run: nothing is started and nothing written."""
    task = prepare_training(config, Console())
    section, sampling = config.grpo, SamplingParams(**dict(config.sampling))
    rollouts = section.problems_per_step * section.num_generations
    lengths = sorted(len(task.train.prompts[problem.id].token_ids) for problem in task.train.problems)
    epochs = section.steps * section.problems_per_step / len(task.train.problems)
    held_out = f"{len(task.held_out.problems)} from {task.held_out.source}" if task.held_out else "none"
    return "\n".join(
        [
            f"model       {config.model.name} ({task.subject.model.path}), context {task.subject.context_length} tokens",
            f"problems    {len(task.train.problems)} from {task.train.source}, {epochs:.2g} epochs; held out: {held_out}",
            f"prompts     {lengths[0]} to {lengths[-1]} tokens, median {lengths[len(lengths) // 2]}",
            f"a step      {section.problems_per_step} problems x {section.num_generations} rollouts, "
            f"at most {rollouts * sampling.max_new_tokens:,} new tokens",
            f"steps       {section.steps}, {section.num_iterations} update(s) each, rollouts at most "
            f"{section.max_staleness} version(s) old",
            f"sampling    {sampling}",
            f"memory      {_memory(task.subject.approximate_parameters, config)}",
            f"learner     {config.learner_settings()}",
            f"run folder  {run_folder_path(config, 'grpo')}",
        ]
    )


def _memory(parameters: int, config: GrpoConfig) -> str:
    """Of learner and generators, without activations and KV cache, which depend on the machine."""
    gib = parameters / 2**30
    copies = 16 + 4 * (config.loss.beta > 0)
    learner = gib * (4 if config.lora.rank else copies)
    return (
        f"about {parameters / 1e6:.0f} M parameters: learner {learner:.1f} GiB (weights"
        f"{'' if config.lora.rank else ', gradients and two moments'} in float32), each generator {2 * gib:.1f} GiB in "
        "bfloat16; beside them activations of learner.token_budget tokens and the KV cache"
    )
