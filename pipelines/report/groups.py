"""The samples of a run that its report shows, in groups: all of an evaluation; of a training, some of each kind."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipelines.problems.problem import Problem
from pipelines.records.journal import Sample, read_samples, scan_samples
from pipelines.records.problems import read_problems
from pipelines.records.rollouts import RolloutRecord
from pipelines.records.runs import RunInfo, evaluation_journals

MOST_SAMPLES = 8000
"""Of an evaluation."""
MOST_ROLLOUTS = 1200


@dataclass(frozen=True, slots=True)
class Group:
    """`samples` are those shown of `total`; `rewards` has theirs in a training, else is empty."""

    name: str
    samples: Sequence[Sample]
    problems: Mapping[str, Problem]
    total: int
    rewards: Sequence[float | None] = ()


def evaluation_samples(run: RunInfo) -> list[Sample]:
    """All samples of an evaluation, by problem in the order of the source. Raises JournalError."""
    samples = read_samples(run.path / "samples.jsonl", Sample).values()
    order = {name: place for place, name in enumerate(read_problems(run.path / "problems.jsonl"))}
    return sorted(samples, key=lambda sample: (order.get(sample.problem_id, len(order)), sample.key))


def evaluation_group(run: RunInfo, samples: Sequence[Sample]) -> Group:
    """The samples to show of an evaluation: the same number of each problem, where there are too many."""
    problems = read_problems(run.path / "problems.jsonl")
    return Group("samples", even_part(samples, MOST_SAMPLES), problems, len(samples))


def training_groups(run: RunInfo) -> list[Group]:
    """The last and the first evaluation, and the rollouts of some steps. Raises JournalError."""
    folder = run.path / "evaluations"
    problems = read_problems(folder / "problems.jsonl")
    journals = evaluation_journals(run.path)
    groups = []
    for step in dict.fromkeys([*list(journals)[-1:], *list(journals)[:1]]):
        samples = list(read_samples(journals[step], Sample).values())
        groups.append(Group(f"evaluation after {step} steps", even_part(samples, MOST_SAMPLES), problems, len(samples)))
    return groups + _rollout_groups(run)


def even_part(samples: Sequence[Sample], most: int) -> list[Sample]:
    """At most so many: the first samples of every problem alike, or every n-th sample where problems alone are too many."""
    if len(samples) <= most:
        return list(samples)
    each = most // len({sample.problem_id for sample in samples})
    if each:
        return [sample for sample in samples if sample.sample_index < each]
    return list(samples[:: -(-len(samples) // most)])


def _rollout_groups(run: RunInfo) -> list[Group]:
    journal = run.path / "rollouts.jsonl"
    section = run.config.get("grpo", {})
    size = section.get("problems_per_step", 1) * section.get("num_generations", 1)
    wanted = set(spread(run.done, max(2, MOST_ROLLOUTS // size)))
    chosen: dict[int, dict[object, RolloutRecord]] = {}
    for record in scan_samples(journal, RolloutRecord):
        if record.step in wanted:
            chosen.setdefault(record.step, {}).setdefault(record.key, record)
    problems = read_problems(run.path / "problems.jsonl") if chosen else {}
    return [_rollout_group(step, list(chosen[step].values()), problems) for step in sorted(chosen)]


def _rollout_group(step: int, records: Iterable[RolloutRecord], problems: Mapping[str, Problem]) -> Group:
    ordered = sorted(records, key=lambda record: record.key)
    samples = [
        Sample(
            problem_id=record.problem_id,
            sample_index=record.sample_index,
            prompt_hash=record.prompt_hash,
            completion=record.completion,
            num_tokens=len(record.token_ids),
            finish_reason=record.finish_reason,
            answer=record.answer,
            gold=record.gold,
            verdict=record.verdict,
            reason=record.reward_fault or record.reason,
            subject=record.subject,
            level=record.level,
            attempt=record.attempt,
            actor=record.actor,
            seconds=record.seconds,
            policy_version=record.policy_version,
        )
        for record in ordered
    ]
    rewards = [record.reward for record in ordered]
    return Group(f"rollouts of step {step + 1}", samples, problems, len(samples), rewards)


def spread(count: int, most: int) -> list[int]:
    """At most so many of 0, 1, …, count - 1, with the first, the last, and even distances between."""
    if count <= most:
        return list(range(count))
    return sorted({round(place * (count - 1) / (most - 1)) for place in range(most)})
