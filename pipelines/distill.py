"""Supervised training on worked solutions: of people, of a program, of a better model, or the model's own correct ones.

For every step: take some examples; let the learner make them into one update. Now and then, evaluate and save.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from actors.learner import TeacherSpec
from actors.learning import Example
from actors.models import BUILTIN_MODELS, ModelSpec, load_tokenizer, model_fingerprint, resolve_model
from pipelines.config import ConfigError, DistillConfig, result_settings
from pipelines.dispatch.signals import StopFlag
from pipelines.exit_codes import ExitCode
from pipelines.problems import ProblemError, PromptError, dataset_fingerprint
from pipelines.records.run_folder import open_run_folder
from pipelines.task import Subject, run_folder_path
from pipelines.terminal.console import Console
from pipelines.tracking.tracker import tracked
from pipelines.training.course import Course
from pipelines.training.crew import Crew, crew_of
from pipelines.training.examples import ExampleSet, examples_of
from pipelines.training.order import batch_of_step
from pipelines.training.session import resumable
from pipelines.training.solutions import Solutions, load_solutions
from pipelines.training.task import PromptedProblems, TrainingTask, held_out_problems, without

NAMED = 5
"""Rows or examples that a warning names."""


@dataclass(frozen=True, slots=True)
class Distillation:
    """What is learnt, and `config` with the number of steps that it comes to."""

    config: DistillConfig
    task: TrainingTask
    examples: list[Example]
    held_out: list[Example]
    teacher: TeacherSpec | None

    @property
    def steps(self) -> int:
        assert self.config.distill.steps is not None
        return self.config.distill.steps

    def batch(self, step: int) -> list[Example]:
        """The examples of `step`, counted from 0: a function of the seed and the step alone."""
        section = self.config.distill
        return batch_of_step(self.examples, step, section.batch_size, section.seed)

    def epoch(self, steps: int) -> float:
        """Passes over the examples that `steps` make."""
        return steps / (len(self.examples) // self.config.distill.batch_size)


def train(config: DistillConfig, console: Console, stop: StopFlag, command: str) -> tuple[dict[str, Any], ExitCode]:
    """Run, or resume, the training that `config` describes; returns its summary and the exit code."""
    with open_run_folder(run_folder_path(config, "distill")) as folder:
        plan = prepare(config, console)
        course = Course(plan.config, plan.task, folder, console, stop, command, plan.steps)
        with tracked(config.tracking, "distill", folder, console) as tracker:
            if not course.complete:
                subject = plan.task.subject
                with crew_of(
                    plan.config,
                    subject.model,
                    folder.path,
                    1,
                    console,
                    stop,
                    course.incidents,
                    course.progress,
                    weights_bytes=4 * subject.approximate_parameters,
                    teacher=plan.teacher,
                    generating=plan.task.held_out is not None,
                ) as crew:
                    resumable(crew, course, lambda first: follow(plan, crew, course, first))
            summary, code = course.conclude()
            held_out = plan.task.held_out.problems if plan.task.held_out else []
            tracker.conclude(code, course.evaluated, {problem.id: problem for problem in held_out})
        return summary, code


def follow(plan: Distillation, crew: Crew, course: Course, first: int) -> None:
    """All steps from `first` on, which the learner has not made yet."""
    _evaluate_if_due(plan, crew, course, first)
    for step in range(first, plan.steps):
        with course.step(step + 1) as report:
            with report.timed("learn"):
                report |= crew.learn("supervised_step", plan.batch(step))
            report["epoch"] = plan.epoch(step + 1)
        _evaluate_if_due(plan, crew, course, step + 1)
        course.save_if_due(crew, step + 1)


def _evaluate_if_due(plan: Distillation, crew: Crew, course: Course, step: int) -> None:
    if not course.evaluation_due(step):
        return
    if plan.held_out:
        loss = crew.learn("supervised_loss", plan.held_out)
        course.note(step, {f"eval/{name}": value for name, value in loss.items()})
    crew.share_weights()
    course.evaluate_if_due(crew, step)


def prepare(config: DistillConfig, console: Console) -> Distillation:
    """Load solutions and tokenizer and build the examples; loads no weights. What is left out is told, with counts.

    Raises ProblemError, PromptError, ModelError, JournalError, and ConfigError where settings and data do not fit.
    """
    section = config.distill
    subject = Subject(config)
    teacher = _teacher(config, subject)
    solutions = load_solutions(config.data, drop_bad_rows=section.bad_rows == "drop")
    _tell(solutions, console)
    train = PromptedProblems.of(solutions.problems, subject.prompts, solutions.source)
    evaluated = held_out_problems(config, subject, console)
    if evaluated:
        train = without(train, evaluated, console)
    found = _examples(config, subject, train, console)
    apart = _apart(found.problem_ids, section.held_out, section.seed)
    parts: dict[bool, list[Example]] = {False: [], True: []}
    for example, name in zip(found.examples, found.problem_ids, strict=True):
        parts[name in apart].append(example)
    identity = {
        **result_settings(config),
        **subject.fingerprints,
        "fingerprint.solutions": solutions.fingerprint(),
        "fingerprint.held_out": dataset_fingerprint(evaluated.problems) if evaluated else None,
        "fingerprint.teacher": _fingerprint(teacher.model) if teacher else None,
    }
    task = TrainingTask(subject, train, evaluated, identity)
    return Distillation(_settled(config, len(parts[False])), task, parts[False], parts[True], teacher)


def _tell(solutions: Solutions, console: Console) -> None:
    for note in solutions.notes:
        console.say(note)
    if solutions.faults:
        console.warn(f"{len(solutions.faults)} row(s) are left out: {_some(solutions.faults)}")


def _examples(config: DistillConfig, subject: Subject, train: PromptedProblems, console: Console) -> ExampleSet:
    section = config.distill
    limits = [limit for limit in (section.max_seq_len, subject.context_length) if limit is not None]
    limit = min(limits, default=None)
    found = examples_of(train.problems, train.prompts, subject.tokenizer, limit, section.overlong)
    for what, ids in (("left out", found.dropped), ("truncated", found.truncated)):
        if ids:
            console.warn(f"{len(ids)} example(s) of more than {limit} tokens are {what}: {_some(ids)}")
    return found


def _settled(config: DistillConfig, examples: int) -> DistillConfig:
    """The configuration with the number of steps that so many examples make."""
    section = config.distill
    if examples < section.batch_size:
        reason = f"{examples} examples are left to learn from, and a step takes distill.batch_size={section.batch_size}"
        raise ProblemError("there is too little to learn:", [f"{reason}; lower it, or give more examples"])
    try:
        return config.with_steps(section.steps or section.epochs * (examples // section.batch_size))
    except ValueError as error:
        raise ConfigError([f"{error} ({section.epochs} epoch(s) of {examples} examples)"]) from error


def describe(config: DistillConfig) -> str:
    """What `train` would do, for --dry-run: nothing is started and nothing written."""
    plan = prepare(config, Console())
    section, subject = plan.config.distill, plan.task.subject
    prompts = sorted(len(example.prompt_ids) for example in plan.examples)
    answers = sorted(len(example.answer_ids) for example in plan.examples)
    evaluated = f"{len(plan.task.held_out.problems)} from {plan.task.held_out.source}" if plan.task.held_out else "none"
    first = plan.examples[0]
    return "\n".join(
        [
            f"model       {config.model.name} ({subject.model.path}), context {subject.context_length} tokens, "
            f"weights from {'the checkpoint' if config.model.init == 'checkpoint' else f'seed {config.model.init_seed}'}",
            f"examples    {len(plan.examples)} from {plan.task.train.source}; {len(plan.held_out)} set apart",
            f"evaluation  problems: {evaluated}",
            f"tokens      prompts {prompts[0]} to {prompts[-1]}, median {prompts[len(prompts) // 2]}; "
            f"solutions {answers[0]} to {answers[-1]}, median {answers[len(answers) // 2]}",
            f"steps       {plan.steps} of {section.batch_size} examples, {plan.epoch(plan.steps):.2f} epochs; what is "
            "over at the end of an epoch, less than a step, is left out of it",
            f"optimizer   {plan.config.learner_settings().optimizer}",
            f"run folder  {run_folder_path(config, 'distill')}",
            f"first example, {len(first.prompt_ids)} + {len(first.answer_ids)} tokens:",
            str(subject.tokenizer.decode([*first.prompt_ids, *first.answer_ids])),
        ]
    )


def _teacher(config: DistillConfig, subject: Subject) -> TeacherSpec | None:
    """Raises PromptError for a teacher with another tokenizer: its tokens would mean something else."""
    section = config.teacher
    if section.name is None:
        return None
    path = resolve_model(section.name, section.revision)
    path = section.name if section.name in BUILTIN_MODELS else path
    tokenizer = load_tokenizer(path, section.revision, section.trust_remote_code)
    if tokenizer.get_vocab() != subject.tokenizer.get_vocab():
        raise PromptError(
            f"the tokenizers of the teacher {section.name} and of {config.model.name} differ, so the teacher's tokens "
            f"would mean something else: choose a teacher of the same family, or let it write solutions with `mathlete "
            "eval` and learn those with data.from_run"
        )
    model = ModelSpec(
        path,
        section.revision,
        dtype=section.dtype,
        device=config.model.device,
        trust_remote_code=section.trust_remote_code,
    )
    return TeacherSpec(model, section.top_k)


def _fingerprint(model: ModelSpec) -> str | None:
    return model_fingerprint(resolve_model(model.path, model.revision), model.revision, model.trust_remote_code)


def _apart(names: Sequence[str], count: int, seed: int) -> set[str]:
    """The problems whose examples are held out: so many, drawn from the seed. All examples of one go together."""
    different = sorted(set(names))
    return set(random.Random(f"held out/{seed}").sample(different, min(count, len(different))))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
