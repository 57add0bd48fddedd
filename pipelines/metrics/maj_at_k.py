"""maj@k: how often the majority vote over k samples of a problem is correct (self-consistency, arXiv 2203.11171).

A vote is known by how many samples each class of equivalent answers has, and which share of these is correct: members
of a class may differ there, since a gold answer accepts some answers that leave something out. The answer of a winning
class is that of one of its members, each as likely as the other.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

EXACT_SAMPLES = 512
"""Up to so many samples all subsets are counted, in a quarter of a second at most; from 1030 on, their number would not
fit into a float."""

DRAWS = 1024
"""Subsets that are drawn for an estimate; its standard error is at most 1 / 64."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The votes of one problem. Samples that are in no class, `samples` less the sum of `counts`, do not vote."""

    samples: int
    counts: tuple[int, ...]
    """Samples of each class; none is 0."""
    correct: tuple[float, ...]
    """Share of correct ones among these."""

    @property
    def winners(self) -> tuple[int, ...]:
        """Places of the largest classes; several where there is a tie, none where nobody voted."""
        most = max(self.counts, default=0)
        return tuple(place for place, count in enumerate(self.counts) if count == most)


def is_exact(samples: int) -> bool:
    """Whether `maj_at` counts all subsets of so many samples."""
    return samples <= EXACT_SAMPLES


def maj_at(tally: Tally, ks: Sequence[int], seed: str = "") -> list[float | None]:
    """maj@k for each of `ks`: the expectation over all subsets of k of the samples, and over a random choice between
    classes that tie. A subset in which nobody votes has no answer, which is not correct. None with fewer than k samples.

    With more than EXACT_SAMPLES samples it is the mean over DRAWS subsets that `seed` decides.
    """
    possible = [k for k in ks if k <= tally.samples]
    count = _exact if is_exact(tally.samples) else lambda tally, ks: _drawn(tally, ks, seed)
    found = dict(zip(possible, count(tally, possible), strict=True))
    return [found.get(k) for k in ks]


def _exact(tally: Tally, ks: Sequence[int]) -> list[float]:
    """Multivariate hypergeometric over the classes: for each class and each number of votes with which it may win, the
    subsets in which no other class has more, by how many others have as many.
    """
    won = np.zeros(tally.samples + 1)
    """By size: subsets in which the vote is correct."""
    silent = _binomials(tally.samples - sum(tally.counts))
    for place, (own, share) in enumerate(zip(tally.counts, tally.correct, strict=True)):
        if not share:
            continue
        others = (*tally.counts[:place], *tally.counts[place + 1 :])
        for votes in range(1, own + 1):
            rest = np.convolve(_beaten(others, votes), silent)
            won[votes : votes + len(rest)] += share * float(math.comb(own, votes)) * rest
    return [float(won[k] / math.comb(tally.samples, k)) for k in ks]


def _beaten(classes: Sequence[int], votes: int) -> npt.NDArray[np.float64]:
    """By size, the subsets of these classes in which none has more than `votes`, each weighted by 1 / (1 + ties)."""
    below = np.ones(1)
    """Of classes that cannot tie, being smaller than `votes`."""
    for count in classes:
        if count < votes:
            below = np.convolve(below, _binomials(count))
    rivals = [count for count in classes if count >= votes]
    ways = np.zeros((len(rivals) + 1, votes * len(rivals) + 1))
    """By ties and by size, of classes that can."""
    ways[0, 0] = 1
    for count in rivals:
        after = np.zeros_like(ways)
        for chosen in range(votes):
            after[:, chosen:] += float(math.comb(count, chosen)) * ways[:, : ways.shape[1] - chosen]
        after[1:, votes:] += float(math.comb(count, votes)) * ways[:-1, : ways.shape[1] - votes]
        ways = after
    weighted = (ways / np.arange(1, len(rivals) + 2)[:, None]).sum(axis=0)
    return np.convolve(below, weighted)


def _binomials(count: int) -> npt.NDArray[np.float64]:
    return np.array([math.comb(count, chosen) for chosen in range(count + 1)], dtype=np.float64)


def _drawn(tally: Tally, ks: Sequence[int], seed: str) -> list[float]:
    random_ = random.Random(seed)
    votes = [place for place, count in enumerate(tally.counts) for _ in range(count)]
    votes += [-1] * (tally.samples - len(votes))
    return [sum(_won(random_.sample(votes, k), tally.correct) for _ in range(DRAWS)) / DRAWS for k in ks]


def _won(votes: Sequence[int], correct: Sequence[float]) -> float:
    counts: dict[int, int] = {}
    for place in votes:
        if place >= 0:
            counts[place] = counts.get(place, 0) + 1
    most = max(counts.values(), default=0)
    winners = [place for place, count in counts.items() if count == most]
    return sum(correct[place] for place in winners) / len(winners) if winners else 0.0
