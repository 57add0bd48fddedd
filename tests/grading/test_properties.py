"""Pairs that are equal, or not, by construction."""

from collections import Counter
from random import Random

import pytest

from grading import is_equivalent
from tests.grading.spellings import FAMILIES, changed, random_value, wrapped

PAIRS = 2_000


def test_two_spellings_of_a_value_are_equivalent_in_99_of_100_pairs():
    rng = Random(20)
    missed = Counter()
    for _ in range(PAIRS):
        value = random_value(rng)
        answer, gold = wrapped(value.spell(rng), rng), value.spell(rng)
        if not is_equivalent(answer, gold).correct:
            missed[value.family, answer, gold] += 1
    assert sum(missed.values()) <= PAIRS // 100, missed


def test_spellings_of_two_values_are_never_equivalent():
    rng = Random(21)
    for _ in range(PAIRS):
        value = random_value(rng)
        answer, gold = wrapped(changed(value, rng).spell(rng), rng), value.spell(rng)
        assert not is_equivalent(answer, gold).correct, (value.family, answer, gold)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_meets_the_grader_in_several_spellings(family):
    rng = Random(22)
    value = next(value for value in iter(lambda: random_value(rng), None) if value.family == family)
    assert len({value.spell(rng) for _ in range(50)}) > 2
