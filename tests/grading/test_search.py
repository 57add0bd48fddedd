"""A search for counterexamples, which shrinks what it finds. Runs where hypothesis is installed."""

import pytest

from grading import equivalence_classes, is_equivalent
from tests.grading.spellings import changed, random_value, wrapped

hypothesis = pytest.importorskip("hypothesis")
strategies = pytest.importorskip("hypothesis.strategies")

search = hypothesis.settings(max_examples=1_000, deadline=None, database=None, derandomize=True)
randomness = strategies.randoms(use_true_random=False)


@search
@hypothesis.given(randomness)
def test_no_spelling_of_another_value_is_accepted(rng):
    value = random_value(rng)
    answer, gold = wrapped(changed(value, rng).spell(rng), rng), value.spell(rng)
    assert not is_equivalent(answer, gold).correct


@search
@hypothesis.given(randomness)
def test_no_spelling_of_the_same_value_is_rejected(rng):
    value = random_value(rng)
    assert is_equivalent(wrapped(value.spell(rng), rng), value.spell(rng)).correct


@search
@hypothesis.given(strategies.text(max_size=40), strategies.text(max_size=40))
def test_any_text_gets_a_verdict_and_only_the_same_text_is_surely_accepted(answer, gold):
    verdict = is_equivalent(answer, gold)
    assert verdict.correct or answer.strip() != gold.strip() or not answer.strip()


@hypothesis.settings(max_examples=200, deadline=None, database=None, derandomize=True)
@hypothesis.given(randomness)
def test_classes_hold_exactly_the_spellings_of_one_value(rng):
    values = [random_value(rng)]
    values.append(changed(values[0], rng))
    chosen = [rng.choice(values) for _ in range(8)]
    classes = equivalence_classes([value.spell(rng) for value in chosen])
    assert sorted(index for members in classes for index in members) == list(range(8))
    assert all(len({chosen[index].key for index in members}) == 1 for members in classes)
