import pytest

from grading.read import read_answer
from grading.realset import real_set, same_set


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (r"(0,36) \setminus \{9\}", r"(9,36) \cup (0,9)"),
        (r"x < 2 \text{ or } x > 3", r"(-\infty,2) \cup (3,\infty)"),
        (r"x > 1 \text{ and } x \le 3", "(1,3]"),
        (r"x \ne 3", r"\mathbb{R} \setminus \{3\}"),
        (r"[0,2] \cup [1,3]", "[0,3]"),
        (r"[0,1) \cup [1,2]", "[0,2]"),
        (r"(0,2) \cap (1,3)", "(1,2)"),
        (r"\{x : x > 2\}", r"(2,\infty)"),
        (r"(-\infty,\infty)", r"\mathbb{R}"),
        (r"(-\infty, \frac{1}{\sqrt{3}}]", r"x \le \frac{\sqrt{3}}{3}"),
    ],
)
def test_two_writings_of_a_set_are_the_same_set(first, second):
    left, right = real_set(read_answer(first)), real_set(read_answer(second))
    assert left is not None and right is not None
    assert same_set(left, right)


@pytest.mark.parametrize(
    ("first", "second"),
    [(r"(0,9) \cup (9,36)", "(0,36)"), ("[0,1)", "[0,1]"), ("x > 2", r"x \ge 2"), (r"(0,1) \cap (2,3)", "(0,1)")],
)
def test_a_lost_point_makes_another_set(first, second):
    left, right = real_set(read_answer(first)), real_set(read_answer(second))
    assert left is not None and right is not None
    assert not same_set(left, right)


@pytest.mark.parametrize("text", [r"(\infty, 2)", "(2, 1)", r"(2, \infty]", "(1, 2, 3)", "x + y > 1", "(a, b)"])
def test_what_is_no_interval_of_numbers_is_no_set(text):
    assert real_set(read_answer(text)) is None
