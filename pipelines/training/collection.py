"""Completions that are wanted together, on their way through generators and graders."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from actors.engine.requests import Completion, GenerationRequest, Key, SamplingParams
from grading import Outcome, Verdict
from pipelines.dispatch.generated import Generated, generated, grading_units
from pipelines.dispatch.work import Finished, Unit
from pipelines.problems import Problem

Record = Callable[[Sequence[tuple[Generated, Verdict]]], None]
"""Keeps graded completions durably, before anything else learns of them."""


class Collection:
    """`requests` until each has a completion with a verdict. Requests that `known` answers already are left out."""

    def __init__(
        self,
        name: str,
        requests: Sequence[GenerationRequest],
        sampling: SamplingParams,
        problems: Mapping[str, Problem],
        record: Record,
    ) -> None:
        """`problems` by the `problem_id` of the requests, which no other collection uses."""
        self.name = name
        self.requests = tuple(requests)
        self.sampling = sampling
        self.verdicts: Counter[str] = Counter()
        """Of what is recorded."""
        self.tokens = 0
        """Generated so far."""
        self._problems = problems
        self._record = record
        self._missing: set[Key] = {request.key for request in requests}

    @property
    def done(self) -> bool:
        return not self._missing

    @property
    def missing(self) -> int:
        return len(self._missing)

    def generated(self, event: Finished) -> Iterator[Unit]:
        """Take what a generator made; returns units for graders. What failed has nothing to grade and is recorded."""
        made = generated(event, self._problems)
        self.tokens += sum(len(item.completion.token_ids) for item in made)
        self._keep((item, _failure(item)) for item in made if item.failed)
        yield from grading_units(event.unit.id, made)

    def graded(self, items: Iterable[Generated], verdicts: Iterable[Verdict]) -> None:
        self._keep(zip(items, verdicts, strict=True))

    def given_up(self, unit: Unit, reason: str) -> None:
        """Its requests end without a completion."""
        made = (
            Generated(Completion.failed(request, reason), self._problems[request.problem_id], unit)
            for request in unit.items
        )
        self._keep((item, _failure(item)) for item in made)

    def ungraded(self, items: Iterable[Generated], reason: str) -> None:
        """Their completions end without a verdict."""
        self._keep((item, Verdict(Outcome.ERROR, reason)) for item in items)

    def _keep(self, pairs: Iterable[tuple[Generated, Verdict]]) -> None:
        kept = list(pairs)
        if kept:
            self._record(kept)
            self._missing -= {item.completion.key for item, _ in kept}
            self.verdicts.update(str(verdict.outcome) for _, verdict in kept)


def _failure(item: Generated) -> Verdict:
    return Verdict(Outcome.ERROR, item.completion.error or "no completion")
