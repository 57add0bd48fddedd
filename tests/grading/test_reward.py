import math

import pytest

from grading import Outcome, RewardSettings, Verdict, grade, reward

BOXED = grade(r"so \boxed{2}", "2")
UNBOXED = grade("the answer is 2", "2")
WRONG = grade(r"so \boxed{3}", "2")
NONE = grade("I do not know", "2")


def rewarded(verdict, num_tokens=50, **terms):
    return reward(verdict, RewardSettings(**terms), num_tokens=num_tokens, max_tokens=100)


def test_by_default_a_correct_answer_is_worth_one_and_any_other_nothing():
    assert [rewarded(verdict) for verdict in (BOXED, UNBOXED, WRONG, NONE)] == [1, 1, 0, 0]


def test_the_format_is_paid_for_a_box_right_or_wrong():
    terms = {"correct": 1.0, "wrong": -0.5, "format": 0.25}
    assert [rewarded(verdict, **terms) for verdict in (BOXED, UNBOXED, WRONG, NONE)] == [1.25, 1, -0.25, -0.5]


@pytest.mark.parametrize("completion", [r"\boxed{2", r"\boxed{}", r"\boxed{2} no, \boxed{"])
def test_a_box_that_is_empty_or_not_closed_is_no_format(completion):
    assert rewarded(grade(completion, "2"), format=0.25) == 0


def test_the_length_penalty_falls_with_the_tokens_and_on_correct_answers_only():
    assert [rewarded(BOXED, tokens, length_penalty=0.5) for tokens in (0, 50, 100)] == [1, 0.75, 0.5]
    assert rewarded(WRONG, 100, length_penalty=0.5) == 0


def test_the_function_adds_its_share():
    verdict = Verdict(Outcome.CORRECT, "same text", reward=3.0)
    assert rewarded(verdict, function="a.b:c", function_weight=0.5) == 2.5
    assert rewarded(verdict) == 1


def test_a_fault_of_the_grader_or_of_the_function_is_no_reward_rather_than_a_low_one():
    assert math.isnan(rewarded(Verdict(Outcome.TIMEOUT, "no answer")))
    assert math.isnan(rewarded(Verdict(Outcome.ERROR, "crash", reward=1.0), function="a:b"))
    assert math.isnan(rewarded(BOXED, function="a:b"))


@pytest.mark.parametrize("name", ["score", "module:", ":score", "my module:score", "a:b:c", "a/b.py:score"])
def test_a_function_has_a_module_and_a_name(name):
    with pytest.raises(ValueError, match="module:function"):
        RewardSettings(function=name)


@pytest.mark.parametrize("term", ["correct", "wrong", "format", "length_penalty", "function_weight"])
def test_terms_are_finite(term):
    with pytest.raises(ValueError, match=term):
        RewardSettings(**{term: math.inf})
