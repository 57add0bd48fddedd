"""Completions on their way from generators to graders."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from actors.engine.requests import Completion
from grading import GradingItem
from pipelines.dispatch.work import Finished, Unit
from pipelines.problems import Problem

GRADING_UNIT = 16
"""Completions that go to a grader at once; they are recorded together."""


@dataclass(frozen=True, slots=True)
class Generated:
    """A completion with what its record will want to know."""

    completion: Completion
    problem: Problem
    unit: Unit
    worker: str = ""
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """There is nothing to grade."""
        return self.completion.finish_reason == "error"

    @property
    def grading_item(self) -> GradingItem:
        return GradingItem(self.completion.text, self.problem.answer, asdict(self.problem))


def generated(event: Finished, problems: Mapping[str, Problem]) -> list[Generated]:
    """What a generator made of a unit; `problems` by the names that its requests have."""
    return [
        Generated(item, problems[item.problem_id], event.unit, event.worker, event.seconds) for item in event.result
    ]


def grading_units(name: str, made: Sequence[Generated]) -> Iterator[Unit]:
    """Units for graders of those that did not fail."""
    good = [item for item in made if not item.failed]
    for first in range(0, len(good), GRADING_UNIT):
        yield Unit(f"{name}/{first}", tuple(good[first : first + GRADING_UNIT]))
