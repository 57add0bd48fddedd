"""What two runs say about each other on the problems that both have."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.compare.sides import Side
from pipelines.metrics.paired import bootstrap_interval, mcnemar_exact, sign_flip_test
from pipelines.problems.problem import Problem
from pipelines.records.journal import FAULTS, Sample

LEVEL = 0.05
"""A p-value below counts as a difference."""


class OtherData(Exception):
    """The two are about different problems; the text says how far."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One problem with the samples of both; `first` and `second` are the shares of correct ones."""

    problem: Problem
    samples: tuple[Sequence[Sample], Sequence[Sample]]
    first: float
    second: float

    @property
    def difference(self) -> float:
        return self.second - self.first

    @property
    def change(self) -> str:
        """`gained` where the second is better, `lost` where it is worse, else `same`."""
        return "gained" if self.difference > 0 else "lost" if self.difference < 0 else "same"


@dataclass(frozen=True, slots=True)
class Difference:
    """The paired difference over some problems: `second` less `first`, with the 95 % bootstrap interval by problem."""

    problems: int
    first: float
    second: float
    difference: float
    interval_95: tuple[float, float]
    gained: int
    lost: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left_out` counts each side's problems that the other does not have. `test` names the test of `p_value`."""

    sides: tuple[Side, Side]
    pairs: Sequence[Pair]
    left_out: tuple[int, int]
    all: Difference
    by_subject: Mapping[str, Difference]
    by_level: Mapping[str, Difference]
    test: str
    p_value: float

    @property
    def verdict(self) -> str:
        """What it comes to, in a sentence."""
        if self.p_value >= LEVEL:
            return "no difference can be told from chance"
        return f"{'B' if self.all.difference > 0 else 'A'} is better"

    @property
    def flips(self) -> list[Pair]:
        """The pairs that differ, losses first, the largest differences first."""
        found = [pair for pair in self.pairs if pair.difference]
        return sorted(found, key=lambda pair: (pair.difference > 0, -abs(pair.difference)))

    @property
    def faults(self) -> tuple[int, int]:
        """Samples of each side that count as not correct, though the grader or the machine failed."""
        first, second = (
            sum(sample.verdict in FAULTS for pair in self.pairs for sample in pair.samples[side]) for side in (0, 1)
        )
        return first, second

    @property
    def settings(self) -> list[tuple[str, Any, Any]]:
        """Settings that differ and can change results."""
        first, second = (side.settings for side in self.sides)
        keys = sorted({*first, *second})
        return [(key, first.get(key), second.get(key)) for key in keys if first.get(key) != second.get(key)]


def compare(first: Side, second: Side, *, allow_different_data: bool = False) -> Comparison:
    """Compare the runs over the problems of which both have samples.

    With one sample a problem on both sides the test is the exact McNemar test, else the paired permutation test on each
    problem's share of correct samples. Raises OtherData where they were asked different problems, unless that is
    allowed: then those with the same id, text and answer are compared. Raises it anyhow where there are none.
    """
    known = [name for name in first.samples if name in second.samples]
    same = [name for name in known if _is_same(name, first, second)]
    if (first.fingerprint != second.fingerprint or len(same) < len(known)) and not allow_different_data:
        raise OtherData(
            f"{first.name} and {second.name} were asked different problems: {len(first.samples)} and "
            f"{len(second.samples)}, of which {len(same)} are the same. --allow-different-data compares these."
        )
    if not same:
        raise OtherData(f"{first.name} and {second.name} have no problem in common")
    pairs = [_pair(name, first, second) for name in same]
    differences = [pair.difference for pair in pairs]
    every = difference_of(pairs)
    single = all(len(row) == 1 for pair in pairs for row in pair.samples)
    return Comparison(
        sides=(first, second),
        pairs=pairs,
        left_out=(len(first.samples) - len(same), len(second.samples) - len(same)),
        all=every,
        by_subject=_groups(pairs, [pair.problem.subject for pair in pairs]),
        by_level=_groups(pairs, [pair.problem.level for pair in pairs]),
        test="exact McNemar test" if single else "paired permutation test",
        p_value=mcnemar_exact(every.lost, every.gained) if single else sign_flip_test(differences),
    )


def difference_of(pairs: Sequence[Pair]) -> Difference:
    """Over the pairs, of which there must be one."""
    interval = bootstrap_interval([pair.difference for pair in pairs])
    assert interval is not None
    first, second = (
        sum(values) / len(pairs) for values in zip(*((pair.first, pair.second) for pair in pairs), strict=True)
    )
    changes = [pair.change for pair in pairs]
    return Difference(
        problems=len(pairs),
        first=first,
        second=second,
        difference=second - first,
        interval_95=interval,
        gained=changes.count("gained"),
        lost=changes.count("lost"),
    )


def _groups(pairs: Sequence[Pair], labels: Iterable[Any]) -> dict[str, Difference]:
    groups: dict[Any, list[Pair]] = {}
    for pair, label in zip(pairs, labels, strict=True):
        if label is not None:
            groups.setdefault(label, []).append(pair)
    return {str(label): difference_of(groups[label]) for label in sorted(groups)}


def _pair(name: str, first: Side, second: Side) -> Pair:
    rows = first.samples[name], second.samples[name]
    sample = rows[0][0]
    problem = first.problems.get(name) or second.problems.get(name)
    shares = [sum(each.verdict == "correct" for each in row) / len(row) for row in rows]
    known = problem or Problem(name, "", sample.gold, sample.subject, sample.level)
    return Pair(known, rows, shares[0], shares[1])


def _is_same(name: str, first: Side, second: Side) -> bool:
    texts = [side.problems[name].problem if name in side.problems else None for side in (first, second)]
    same_text = None in texts or texts[0] == texts[1]
    return same_text and first.samples[name][0].gold == second.samples[name][0].gold
