"""Worked solutions to learn from: those of a source of problems, or the correct completions of an earlier run."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml
from pydantic import ValidationError

from pipelines.config.distill import SolutionsConfig
from pipelines.config.schema import DataConfig
from pipelines.problems import Problem, ProblemError, Selection, describe_source, load_problems, select
from pipelines.records.journal import Sample, read_samples
from pipelines.records.rollouts import RolloutRecord
from pipelines.records.run_folder import find_file
from pipelines.task import data_source, selected_problems

JOURNALS: Mapping[str, type[Sample] | type[RolloutRecord]] = {"samples.jsonl": Sample, "rollouts.jsonl": RolloutRecord}
"""Where runs keep what was generated, and of which kind."""


@dataclass(frozen=True, slots=True)
class Solutions:
    """`problems` have a solution each; one that was solved in several ways is there several times."""

    problems: list[Problem]
    source: str
    faults: list[str] = field(default_factory=list)
    """Rows that were left out, and why."""
    notes: list[str] = field(default_factory=list)
    """What else was not taken, in counts."""

    def fingerprint(self) -> str:
        """SHA-256 in hex over what is learnt, in order."""
        digest = hashlib.sha256()
        for problem in self.problems:
            digest.update(repr((problem.id, problem.problem, problem.solution)).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def load_solutions(data: SolutionsConfig, *, drop_bad_rows: bool) -> Solutions:
    """The solutions that the section names.

    Raises ProblemError, with every row that cannot be learnt from unless those are to be dropped, and JournalError for a
    run whose journal is broken.
    """
    if data.from_run is not None:
        return _of_run(data)
    faults: list[str] = []
    problems = selected_problems(data, faults if drop_bad_rows else None)
    unsolved = [f"{problem.id}: no solution" for problem in problems if not (problem.solution or "").strip()]
    source = describe_source(data_source(data))
    solved = [problem for problem in problems if (problem.solution or "").strip()]
    if unsolved and (not drop_bad_rows or not solved):
        advice = "name the column with data.columns.solution=<name>, or drop such rows with distill.bad_rows=drop"
        raise ProblemError(f"{source} has problems without a solution to learn ({advice}):", unsolved)
    return Solutions(solved, source, faults=faults + unsolved)


def _of_run(data: SolutionsConfig) -> Solutions:
    """Rejection sampling: of a run's completions those that are correct, were ended by the model, and are new."""
    assert data.from_run is not None
    journal = find_file(data.from_run, JOURNALS)
    if journal is None:
        known = " or ".join(JOURNALS)
        raise ProblemError(
            f"data.from_run={data.from_run}:", [f"no run there, nor in runs/; a run folder holds {known}"]
        )
    folder = journal.resolve().parent
    samples = read_samples(journal, JOURNALS[journal.name])
    problems = _problems_of_run(folder, data)
    counts: Counter[str] = Counter()
    kept = list(_kept(samples.values(), problems, data.max_per_problem, counts))
    if not kept:
        raise ProblemError(f"{folder} has nothing to learn from:", [f"{len(samples)} completions: {_told(counts)}"])
    note = f"{len(kept)} of {len(samples)} completions are learnt"
    return Solutions(
        kept, f"correct completions of {folder}", notes=[f"{note}; left out: {_told(counts)}" if counts else note]
    )


def _problems_of_run(folder: Path, data: SolutionsConfig) -> dict[str, Problem]:
    """The problems that the run was about, after this configuration's filters."""
    try:
        settings = DataConfig.model_validate(
            yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))["data"]
        )
    except (OSError, KeyError, TypeError, yaml.YAMLError, ValidationError) as error:
        reason = str(error).splitlines()[0]
        raise ProblemError(
            f"{folder}:", [f"its config.yaml does not say which problems it was about: {reason}"]
        ) from error
    problems = load_problems(data_source(settings))
    chosen = select(problems, Selection(data.limit, data.ids, data.subjects, data.levels))
    return {problem.id: problem for problem in chosen}


def _kept(
    samples: Iterable[Sample | RolloutRecord], problems: Mapping[str, Problem], most: int | None, counts: Counter[str]
) -> Iterator[Problem]:
    """The problems with what solved them, in the order of the samples' keys; `counts` says what became of the rest."""
    seen: set[tuple[str, str]] = set()
    taken: Counter[str] = Counter()
    for sample in sorted(samples, key=lambda sample: sample.key):
        problem = problems.get(sample.problem_id)
        solution = sample.completion.strip()
        if sample.verdict != "correct":
            counts["not correct"] += 1
        elif problem is None:
            counts["of problems that are not asked for"] += 1
        elif problem.answer != sample.gold:
            raise ProblemError(
                f"the problems have changed since the run: {sample.problem_id}",
                [f"its answer was {sample.gold!r} then and is {problem.answer!r} now; bring the old data back"],
            )
        elif sample.finish_reason == "length":
            counts["cut off"] += 1
        elif (problem.id, solution) in seen:
            counts["the same again"] += 1
        elif most is not None and taken[problem.id] >= most:
            counts["above data.max_per_problem"] += 1
        else:
            seen.add((problem.id, solution))
            taken[problem.id] += 1
            yield replace(problem, solution=sample.completion)


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
