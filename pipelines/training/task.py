"""What a training run is about: the model, the problems to learn from, those that are held out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.config import GrpoConfig, TrainingConfig, result_settings
from pipelines.problems import (
    Problem,
    ProblemError,
    Prompt,
    PromptBuilder,
    check_context,
    dataset_fingerprint,
    describe_source,
)
from pipelines.task import Subject, data_source, selected_problems
from pipelines.terminal.console import Console


@dataclass(frozen=True, slots=True)
class PromptedProblems:
    """Problems with a prompt each, by id."""

    problems: list[Problem]
    prompts: dict[str, Prompt]
    source: str

    @classmethod
    def of(cls, problems: Sequence[Problem], builder: PromptBuilder, source: str) -> "PromptedProblems":
        return cls(list(problems), {problem.id: builder.build(problem) for problem in problems}, source)


@dataclass(frozen=True, slots=True)
class TrainingTask:
    """`held_out` is None where nothing is evaluated."""

    subject: Subject
    train: PromptedProblems
    held_out: PromptedProblems | None
    identity: dict[str, Any]


def prepare_training(config: GrpoConfig, console: Console) -> TrainingTask:
    """Load problems and tokenizer and build the prompts. Loads no weights.

    Problems whose prompt leaves no room for a completion are left out, with a warning; so are training problems that are
    held out as well. Raises ProblemError, PromptError and ModelError.
    """
    subject = Subject(config)
    train = PromptedProblems.of(
        selected_problems(config.data), subject.prompts, describe_source(data_source(config.data))
    )
    held_out = held_out_problems(config, subject, console)
    if held_out:
        train = without(train, held_out, console)
    train = _with_room(train, subject, config.sampling.max_new_tokens, console)
    return TrainingTask(
        subject=subject,
        train=train,
        held_out=held_out,
        identity={
            **result_settings(config),
            **subject.fingerprints,
            "fingerprint.problems": dataset_fingerprint(train.problems),
            "fingerprint.held_out": dataset_fingerprint(held_out.problems) if held_out else None,
        },
    )


def held_out_problems(config: TrainingConfig, subject: Subject, console: Console) -> PromptedProblems | None:
    """The problems to evaluate on, or None where nothing is evaluated. Raises ProblemError and PromptError."""
    if not config.evaluation.every:
        return None
    data = config.evaluation.data
    held_out = PromptedProblems.of(selected_problems(data), subject.prompts, describe_source(data_source(data)))
    return _with_room(held_out, subject, config.evaluation.sampling.max_new_tokens, console)


def without(train: PromptedProblems, held_out: PromptedProblems, console: Console) -> PromptedProblems:
    """`train` without the texts that are held out, which a warning counts. Raises ProblemError when none is left."""
    texts = {problem.problem.strip() for problem in held_out.problems}
    kept = [problem for problem in train.problems if problem.problem.strip() not in texts]
    left_out = len(train.problems) - len(kept)
    if left_out:
        console.warn(f"{left_out} training problem(s) are among the held-out ones and are left out")
    if not kept:
        raise ProblemError("nothing is left to learn from:", ["every training problem is among the held-out ones"])
    return PromptedProblems(kept, train.prompts, train.source)


def _with_room(problems: PromptedProblems, subject: Subject, wanted: int, console: Console) -> PromptedProblems:
    """Without those whose prompt fills the context; one that only cuts completions short is told."""
    limit = subject.context_length
    if limit is None:
        return problems
    found = check_context([problems.prompts[problem.id] for problem in problems.problems], limit, wanted)
    if found.cut_short:
        console.warn(
            f"{len(found.cut_short)} prompt(s) of {problems.source} leave less than {wanted} tokens of the model's "
            f"context of {limit}: their completions may be cut short"
        )
    if not found.no_room:
        return problems
    aside = set(found.no_room)
    kept = [problem for index, problem in enumerate(problems.problems) if index not in aside]
    console.warn(f"{len(aside)} prompt(s) of {problems.source} fill the model's context of {limit} and are left out")
    if not kept:
        raise ProblemError(f"{problems.source}:", [f"every prompt fills the model's context of {limit} tokens"])
    return PromptedProblems(kept, problems.prompts, problems.source)
