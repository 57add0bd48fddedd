"""What several samples of each problem say together: pass@k, maj@k, and what agreement is worth."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pipelines.metrics.agreement import calibration
from pipelines.metrics.interval import clustered_interval
from pipelines.metrics.maj_at_k import Tally, is_exact, maj_at
from pipelines.metrics.pass_at_k import pass_at_k
from pipelines.records.journal import FAULTS, Sample
from pipelines.records.votes import Vote

UNDEFINED = {"value": None, "interval_95": None}


def self_consistency(
    samples: Iterable[Sample], problems: Collection[str], ks: Sequence[int], votes: Mapping[str, Vote] | None
) -> dict[str, Any]:
    """The findings over `samples` of `problems`; `votes` has a vote of every problem, or is None while some are missing.

    `pass_at` and `maj_at` have for each of `ks` the mean over all problems with its interval; where a problem has fewer
    than k samples both are None. `exact` tells whether all subsets were counted or some drawn. `agreement` holds the
    share of all samples that give the winning answer against how often that is right, over problems in which anybody
    votes. `votes` counts who voted.
    """
    groups: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        groups[sample.problem_id].append(sample)
    rows = [sorted(groups.get(name, []), key=lambda sample: sample.sample_index) for name in problems]
    sizes = [len(row) for row in rows]
    right = [sum(sample.verdict == "correct" for sample in row) for row in rows]
    found: dict[str, Any] = {
        "pass_at": {
            str(k): _mean([pass_at_k(size, correct, k) for size, correct in zip(sizes, right, strict=True)], sizes)
            for k in ks
        },
        "maj_at": {str(k): UNDEFINED for k in ks},
        "agreement": None,
        "votes": None,
    }
    if votes is None:
        return found
    tallies = [_tally(row, votes[name]) for name, row in zip(problems, rows, strict=True)]
    majority = [maj_at(tally, ks, name) for name, tally in zip(problems, tallies, strict=True)]
    for k, scores in zip(ks, zip(*majority, strict=True), strict=True):
        found["maj_at"][str(k)] = {**_mean(scores, sizes), "exact": all(map(is_exact, sizes))}
    voted = [tally for tally in tallies if tally.counts]
    found["agreement"] = calibration([_agreement(tally) for tally in voted], [_is_right(tally) for tally in voted])
    found["votes"] = {
        "cast": sum(sum(tally.counts) for tally in tallies),
        "without_answer": sum(sample.answer is None and sample.verdict not in FAULTS for row in rows for sample in row),
        "faults": sum(sample.verdict in FAULTS for row in rows for sample in row),
        "problems_without_vote": len(tallies) - len(voted),
        "problems_by_text": Counter(votes[name].by for name in problems)["text"],
    }
    return found


def _mean(scores: Sequence[float | None], sizes: Sequence[int]) -> dict[str, Any]:
    """Over problems, each counting the same; undefined where it is so for one of them."""
    known = [score for score in scores if score is not None]
    if not known or len(known) < len(scores):
        return UNDEFINED
    interval = clustered_interval(known, [min(sizes)] * len(sizes))
    return {"value": sum(known) / len(known), "interval_95": list(interval) if interval else None}


def _tally(row: Sequence[Sample], vote: Vote) -> Tally:
    """`row` in the order of the vote's ballot."""
    right = [[row[index].verdict == "correct" for index in members] for members in vote.classes]
    return Tally(len(row), tuple(map(len, right)), tuple(sum(members) / len(members) for members in right))


def _agreement(tally: Tally) -> float:
    return max(tally.counts) / tally.samples


def _is_right(tally: Tally) -> float:
    """Of tied winners each counts for its part."""
    return sum(tally.correct[place] for place in tally.winners) / len(tally.winners)
