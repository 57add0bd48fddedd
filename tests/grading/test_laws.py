"""What holds for equivalence as a relation, on gold answers as they are written."""

import re
from itertools import combinations
from random import Random

import pytest

from grading import equivalence_classes, is_equivalent
from tests.grading.rows import read_golds, read_rows

OWN = sorted({row["gold"] for row in read_rows("pairs.jsonl")})
# A gold answer fixes the percent sign, the base or that a ratio is asked for, and an answer may leave them out.
ONE_SIDED = re.compile(r"%|_\{?\d|:")


def may_have_direction(first, second):
    """Whether a rule that only lets the answer leave something out can apply: also the brackets of a point."""
    without_brackets = [re.sub(r"[()\s]", "", text) for text in (first, second)]
    return ONE_SIDED.search(first + second) is not None or without_brackets[0] == without_brackets[1]


def both_ways(first, second):
    return is_equivalent(first, second).correct, is_equivalent(second, first).correct


def test_every_answer_is_equivalent_to_itself():
    assert not [gold for gold in OWN if not is_equivalent(gold, gold).correct]


def test_equivalence_has_no_direction():
    rng = Random(30)
    for first, second in rng.sample(list(combinations(OWN, 2)), 3_000):
        if not may_have_direction(first, second):
            forward, backward = both_ways(first, second)
            assert forward == backward, (first, second)


@pytest.mark.data
def test_equivalence_of_gold_answers_has_no_direction(data_folder):
    golds = sorted({row["answer"] for row in read_golds(data_folder)})
    assert all(both_ways(gold, gold) == (True, True) for gold in golds)
    for first, second in Random(31).sample(list(combinations(golds, 2)), 5_000):
        if not may_have_direction(first, second):
            forward, backward = both_ways(first, second)
            assert forward == backward, (first, second)


@pytest.mark.data
def test_members_of_a_class_of_gold_answers_are_equivalent_to_each_other(data_folder):
    """Among answers without units: a number without one is equivalent to the same number of metres and of degrees."""
    golds = [row["answer"] for row in read_golds(data_folder) if not re.search(r"text|mbox|circ|[$%]", row["answer"])]
    classes = equivalence_classes(golds)
    assert sorted(index for members in classes for index in members) == list(range(len(golds)))
    assert len(classes) < len(set(golds))
    for members in classes:
        for first, second in combinations(members[:10], 2):
            assert both_ways(golds[first], golds[second]) == (True, True), (golds[first], golds[second])
