"""maj@k is the mean over all subsets of k samples, and over a random choice between classes that tie."""

import random
from collections import Counter
from itertools import combinations
from statistics import mean

import pytest

from pipelines.metrics import maj_at_k
from pipelines.metrics.maj_at_k import Tally, maj_at


def by_all_subsets(tally: Tally, k: int) -> float:
    votes = [place for place, count in enumerate(tally.counts) for _ in range(count)]
    votes += [-1] * (tally.samples - len(votes))

    def outcome(subset: tuple[int, ...]) -> float:
        counts = Counter(place for place in subset if place >= 0)
        winners = [place for place, count in counts.items() if count == max(counts.values())]
        return mean(tally.correct[place] for place in winners) if winners else 0.0

    return mean(outcome(subset) for subset in combinations(votes, k))


def tallies() -> list[Tally]:
    draw = random.Random(0)
    made = [
        Tally(5, (5,), (1.0,)),
        Tally(4, (), ()),
        Tally(4, (2, 2), (1.0, 0.0)),
        Tally(7, (1, 1, 1, 1), (0, 1, 0, 0)),
        Tally(9, (3, 3, 2), (0, 2 / 3, 1)),
    ]
    for _ in range(25):
        samples, counts = draw.randint(1, 9), []
        while (left := samples - sum(counts)) > 0 and draw.random() < 0.85:
            counts.append(draw.randint(1, left))
        right = [draw.choice([0.0, 0.0, 1.0, draw.randint(0, count) / count]) for count in counts]
        made.append(Tally(samples, tuple(counts), tuple(right)))
    return made


@pytest.mark.parametrize("tally", tallies(), ids=str)
def test_it_is_the_mean_over_all_subsets_of_every_size(tally: Tally) -> None:
    ks = range(1, tally.samples + 1)
    assert maj_at(tally, ks) == pytest.approx([by_all_subsets(tally, k) for k in ks])


@pytest.mark.parametrize("tally", [Tally(512, (256, 256), (1, 0)), Tally(512, (1,) * 512, (1,) + (0,) * 511)])
def test_many_samples_stay_exact(tally: Tally) -> None:
    """By symmetry every class wins as often as any other."""
    assert maj_at(tally, (1, 2, 31, 256, 511, 512)) == pytest.approx([1 / len(tally.counts)] * 6)


def test_maj_at_1_is_the_share_of_correct_samples_and_maj_at_2_is_no_better() -> None:
    tally = Tally(10, (4, 3), (1, 0))
    assert maj_at(tally, (1, 2)) == pytest.approx([0.4, by_all_subsets(tally, 2)])


def test_with_fewer_than_k_samples_it_is_undefined() -> None:
    assert maj_at(Tally(3, (3,), (1,)), (1, 4, 3)) == [1, None, 1]
    assert maj_at(Tally(0, (), ()), (1,)) == [None]


def test_what_is_drawn_agrees_with_what_is_counted_and_is_the_same_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tally, ks = Tally(20, (8, 6, 3), (0, 1, 0.5)), (1, 5, 20)
    exact = maj_at(tally, ks)
    monkeypatch.setattr(maj_at_k, "EXACT_SAMPLES", 19)
    drawn = maj_at(tally, ks, "seed")
    assert drawn != exact
    assert drawn == pytest.approx(exact, abs=5 / 64)
    assert drawn == maj_at(tally, ks, "seed") != maj_at(tally, ks, "other")


def test_winners_are_all_that_tie() -> None:
    assert Tally(6, (2, 1, 2), (0, 0, 1)).winners == (0, 2)
    assert Tally(6, (), ()).winners == ()
