"""How good the policy is at a step, on problems that it does not learn from."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from actors.engine.requests import GenerationRequest, SamplingParams
from grading import Verdict
from pipelines.dispatch.generated import Generated
from pipelines.records.journal import Journal, Sample, read_samples
from pipelines.records.problems import write_problems
from pipelines.records.samples import make_sample
from pipelines.records.summary import summarise
from pipelines.training.collection import Collection
from pipelines.training.crew import Crew
from pipelines.training.task import PromptedProblems


class HeldOut:
    """Evaluations by the run's own generators, each with a journal in `folder`: one that was cut off goes on."""

    def __init__(self, problems: PromptedProblems, sampling: SamplingParams, folder: Path) -> None:
        self._problems = problems
        self._sampling = sampling
        self._folder = folder

    def evaluate(self, crew: Crew, step: int) -> dict[str, Any]:
        """The findings after `step` steps; the generators must hold the weights of that step."""
        self._folder.mkdir(exist_ok=True)
        write_problems(self._folder / "problems.jsonl", self._problems.problems)
        journal = Journal(self._folder / f"step_{step:06d}.jsonl", Sample)
        try:
            collection = self._collection(step, journal)
            crew.begin(collection)
            crew.collect(collection)
            return {"step": step, **summarise(journal.samples.values(), len(self._problems.problems))}
        finally:
            journal.close()

    def forget_after(self, step: int) -> None:
        """Delete evaluations of later weights than those of `step`: they will be others, if only by rounding."""
        for path in self._folder.glob("step_*.jsonl"):
            if int(path.stem.removeprefix("step_")) > step:
                path.unlink()

    def newest(self) -> Iterable[Sample]:
        """The samples of the evaluation after the most steps."""
        paths = sorted(self._folder.glob("step_*.jsonl"))
        return read_samples(paths[-1], Sample).values() if paths else ()

    def _collection(self, step: int, journal: Journal[Sample]) -> Collection:
        names = {f"evaluation-{step}/{problem.id}": problem for problem in self._problems.problems}
        requests = [
            GenerationRequest(name, 0, tuple(self._problems.prompts[problem.id].token_ids))
            for name, problem in names.items()
            if (problem.id, 0) not in journal.samples
        ]

        def record(made: Sequence[tuple[Generated, Verdict]]) -> None:
            journal.append(
                make_sample(item, verdict, self._problems.prompts[item.problem.id]) for item, verdict in made
            )

        return Collection(f"evaluation-{step}", requests, self._sampling, names, record)
