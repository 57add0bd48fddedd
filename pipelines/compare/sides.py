"""One of the two things that are compared: an evaluation, or an evaluation within a training run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.problems.problem import Problem
from pipelines.records.journal import Sample, read_samples
from pipelines.records.problems import read_problems
from pipelines.records.run_folder import RunFolderError
from pipelines.records.runs import RunInfo, evaluation_journals, find_run, read_run


@dataclass(frozen=True, slots=True)
class Side:
    """`samples` by problem, those of each in the order of their indices; `step` within a training run, else None."""

    name: str
    run: RunInfo
    step: int | None
    samples: Mapping[str, Sequence[Sample]]
    problems: Mapping[str, Problem]
    fingerprint: str | None
    """Of the problems that the run is about, those without samples as well."""
    settings: Mapping[str, Any]
    """What decides its results, by dotted path."""

    @property
    def complete(self) -> bool:
        return self.step is not None or self.run.finished


def read_side(text: str) -> Side:
    """The side that `text` names: a run folder or its name below runs/; for a training run, `RUN@STEP` names one of its
    evaluations and `RUN` the last one.

    Raises RunFolderError where there is no such run or step, or it has no samples, and JournalError for a broken journal.
    """
    name, _, at = text.rpartition("@")
    if not name or not at.isdigit():
        name, at = text, ""
    run = read_run(find_run(name))
    if run.job == "eval":
        if at:
            raise RunFolderError(f"{text}: {name} is an evaluation, which has no steps; leave @{at} away")
        return _side(run, None, run.path / "samples.jsonl", run.path / "problems.jsonl", "fingerprint.problems")
    journals = evaluation_journals(run.path)
    if not journals:
        raise RunFolderError(f"{name}: this training run has no evaluation yet")
    step = int(at) if at else max(journals)
    if step not in journals:
        raise RunFolderError(f"{name}: has no evaluation after {step} steps; there are {', '.join(map(str, journals))}")
    return _side(run, step, journals[step], run.path / "evaluations" / "problems.jsonl", "fingerprint.held_out")


def _side(run: RunInfo, step: int | None, journal: Any, problems: Any, fingerprint: str) -> Side:
    samples: dict[str, list[Sample]] = {}
    for sample in read_samples(journal, Sample).values():
        samples.setdefault(sample.problem_id, []).append(sample)
    if not samples:
        raise RunFolderError(f"{run.path}: has no samples yet")
    identity = run.manifest["identity"]
    return Side(
        name=run.name if step is None else f"{run.name}@{step}",
        run=run,
        step=step,
        samples={name: sorted(row, key=lambda sample: sample.sample_index) for name, row in samples.items()},
        problems=read_problems(problems),
        fingerprint=identity.get(fingerprint),
        settings=identity,
    )
