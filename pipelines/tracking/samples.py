"""A few samples of a run as rows of a table."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipelines.problems import Problem
from pipelines.records.journal import Sample
from pipelines.records.rollouts import RolloutRecord

TEXT_LIMIT = 4000
"""Characters of a text; the middle of a longer one is left out, for its end has the answer."""


def sample_rows(
    samples: Iterable[Sample | RolloutRecord], problems: Mapping[str, Problem], limit: int
) -> list[list[Any]]:
    """At most `limit` of `samples` in the order of `pipelines.tracking.order.COLUMNS`, evenly over their keys: over the problems of an evaluation,
    over the steps of a training run. `step` is that of the weights, from 1 on as in metrics.jsonl; it and the reward
    are None where there is none."""
    return [_row(sample, problems) for sample in _spread(sorted(samples, key=lambda sample: sample.key), limit)]


def _spread(rows: Sequence[Any], limit: int) -> list[Any]:
    if len(rows) <= limit:
        return list(rows)
    return [rows[place * len(rows) // limit] for place in range(limit)]


def _row(sample: Sample | RolloutRecord, problems: Mapping[str, Problem]) -> list[Any]:
    problem = problems.get(sample.problem_id)
    return [
        sample.step + 1 if isinstance(sample, RolloutRecord) else None,
        sample.problem_id,
        sample.sample_index,
        _short(problem.problem) if problem else None,
        _short(sample.completion),
        _short(sample.answer),
        _short(sample.gold),
        sample.verdict,
        sample.reward if isinstance(sample, RolloutRecord) else None,
    ]


def _short(text: str | None) -> str | None:
    if text is None or len(text) <= TEXT_LIMIT:
        return text
    half = TEXT_LIMIT // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters …]\n{text[-half:]}"
