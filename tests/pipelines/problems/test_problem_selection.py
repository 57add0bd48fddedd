"""Choosing problems by number, id, subject and level."""

from typing import Any

import pytest

from pipelines.problems import Problem, ProblemError, Selection, parse_limit, select

PROBLEMS = [
    Problem(f"{subject.lower()}/{n}", "p", "1", subject, level)
    for n, (subject, level) in enumerate(
        (subject, level) for level in (1, 2, 3) for subject in ("Algebra", "Geometry", "Number Theory")
    )
]


def ids(**settings: Any) -> list[str]:
    return [problem.id for problem in select(PROBLEMS, Selection(**settings))]


def complaint(**settings: Any) -> str:
    with pytest.raises(ProblemError) as caught:
        select(PROBLEMS, Selection(**settings))
    return str(caught.value)


def test_no_filter_keeps_everything_in_order() -> None:
    assert select(PROBLEMS, Selection()) == PROBLEMS


@pytest.mark.parametrize(
    ("limit", "numbers"),
    [
        (2, [1, 2]),
        ("2", [1, 2]),
        (" 3 ", [1, 2, 3]),
        ("2-4", [2, 3, 4]),
        ("9-9", [9]),
        ("8-100", [8, 9]),
        (100, [*range(1, 10)]),
    ],
)
def test_limits_count_from_one_and_include_both_ends(limit: str | int, numbers: list[int]) -> None:
    assert select(PROBLEMS, Selection(limit=limit)) == [PROBLEMS[number - 1] for number in numbers]


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("ten", "write 60 for the first 60 problems or 10-20 for a range"),
        ("-5", "not understood"),
        ("1-", "not understood"),
        (-3, "not understood"),
        (True, "not understood"),
        (2.5, "not understood"),
        (0, "counted from 1"),
        ("0-4", "counted from 1"),
        ("20-10", "runs backwards; write 10-20"),
    ],
)
def test_a_limit_without_sense_is_an_error(limit: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_limit(limit)


def test_filters_combine_and_the_limit_counts_what_they_leave() -> None:
    assert ids(subjects=("geometry", "NUMBER THEORY"), levels=(2, 3), limit="2-3") == ["number theory/5", "geometry/7"]


def test_ids_keep_the_order_of_the_source() -> None:
    assert ids(ids=("geometry/4", "algebra/0", "geometry/4")) == ["algebra/0", "geometry/4"]


def test_unknown_names_are_reported_together_with_suggestions() -> None:
    text = complaint(ids=("algebra/00", "zzz"), subjects=("Algebr",), levels=(1, 5), limit="ten")
    assert "limit 'ten' is not understood" in text
    assert "no problem has the id 'algebra/00'; did you mean 'algebra/0'" in text
    assert "no problem has the id 'zzz'; ids look like: algebra/0" in text
    assert "no problem has the subject 'Algebr'; did you mean 'Algebra'?" in text
    assert "no problem has level 5; the levels are 1, 2, 3" in text


def test_a_source_without_subjects_and_levels_says_so() -> None:
    with pytest.raises(ProblemError) as caught:
        select([Problem("a", "p", "1")], Selection(subjects=("Algebra",), levels=(1,)))
    assert str(caught.value).count("leave this filter out") == 2


def test_an_empty_selection_says_which_filter_left_nothing() -> None:
    text = complaint(ids=("algebra/0",), subjects=("Geometry",), levels=(1,))
    assert "9 problems in all, then ids algebra/0 leaves 1, then subjects Geometry leaves 0" in text
    assert "limit 50-60 leaves 0" in complaint(limit="50-60")
