"""Arithmetic problems: exact, reproducible, and split without overlap."""

import re
import subprocess
import sys
from collections import Counter
from fractions import Fraction

import pytest

from pipelines.problems import (
    DataSource,
    Problem,
    ProblemError,
    arithmetic_problems,
    dataset_fingerprint,
    load_problems,
)
from pipelines.problems.arithmetic import split_of
from pipelines.problems.expression import Number, Operation, latex, steps


def value_of(text: str) -> Fraction:
    """The value of a LaTeX expression, by Python's own grammar."""
    text = re.sub(r"\\frac\{(\d+)\}\{(\d+)\}", r"(\1/\2)", text)
    text = text.replace(r"\times", "*").replace(r"\div", "/")
    assert re.fullmatch(r"[\d+\-*/() ]+", text), text
    return eval(re.sub(r"\d+", r"Fraction(\g<0>)", text), {"Fraction": Fraction})


def expression_of(problem: Problem) -> str:
    match = re.search(r"\$(.+?)\.?\$", problem.problem)
    assert match is not None
    return match[1]


@pytest.fixture(scope="module")
def many() -> list[Problem]:
    return arithmetic_problems(1500, seed=7, split="train")


def test_answers_equal_the_value_of_the_expression(many: list[Problem]) -> None:
    for problem in many:
        assert value_of(expression_of(problem)) == value_of(problem.answer), problem


def test_every_line_of_a_solution_has_the_same_value_and_the_last_is_boxed(many: list[Problem]) -> None:
    for problem in many:
        assert problem.solution is not None
        chain = re.search(r"\\\[(.+)\\\]", problem.solution, re.DOTALL)
        assert chain is not None
        lines = [line.removeprefix("= ") for line in chain[1].split("\n")]
        assert lines[0] == expression_of(problem) and lines[-1] == problem.answer
        assert len({value_of(line) for line in lines}) == 1
        assert problem.solution.endswith(rf"$\boxed{{{problem.answer}}}.$")


def test_answers_are_in_lowest_terms(many: list[Problem]) -> None:
    for problem in many:
        fraction = re.fullmatch(r"-?\\frac\{(\d+)\}\{(\d+)\}", problem.answer)
        assert fraction or re.fullmatch(r"-?\d+", problem.answer)
        if fraction:
            assert Fraction(int(fraction[1]), int(fraction[2])).denominator == int(fraction[2]) > 1


def test_levels_come_in_turn_and_ids_and_texts_are_unique(many: list[Problem]) -> None:
    assert [problem.level for problem in many[:7]] == [1, 2, 3, 4, 5, 1, 2]
    assert len({problem.id for problem in many}) == len({expression_of(problem) for problem in many}) == len(many)


def test_level_one_has_one_digit_sums_and_differences_without_negative_answers() -> None:
    for problem in arithmetic_problems(500, levels=(1,)):
        assert re.fullmatch(r"\d( [+-] \d){1,2}", expression_of(problem))
        assert int(problem.answer) >= 0


def test_level_five_has_brackets_exact_divisions_and_fractions() -> None:
    texts = [expression_of(problem) for problem in arithmetic_problems(200, levels=(5,))]
    kinds = Counter(kind for text in texts for kind in ("(", r"\div", r"\frac", r"\times") if kind in text)
    assert min(kinds.values()) > 20


@pytest.mark.parametrize("seeds", [(0, 0), (0, 1), (3, 99)])
def test_splits_are_disjoint_for_any_seeds(seeds: tuple[int, int]) -> None:
    train = {expression_of(problem) for problem in arithmetic_problems(1200, seeds[0], "train")}
    test = {expression_of(problem) for problem in arithmetic_problems(1200, seeds[1], "test")}
    assert not train & test
    assert {split_of(text) for text in train} == {"train"}
    assert {split_of(text) for text in test} == {"test"}


def test_fewer_problems_are_the_beginning_of_more() -> None:
    assert arithmetic_problems(200, 5, "test")[:60] == arithmetic_problems(60, 5, "test")


def test_seeds_differ() -> None:
    assert arithmetic_problems(50, 1) != arithmetic_problems(50, 2)


def test_an_expression_has_one_id_in_every_seed() -> None:
    ids: dict[str, str] = {}
    for seed in range(4):
        for problem in arithmetic_problems(300, seed, levels=(1,)):
            assert ids.setdefault(expression_of(problem), problem.id) == problem.id


def test_another_process_with_another_hash_seed_makes_the_same_problems() -> None:
    code = (
        "from pipelines.problems import arithmetic_problems, dataset_fingerprint;"
        "print(dataset_fingerprint(arithmetic_problems(300, 11, 'test')))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(path for path in sys.path if path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    }
    assert printed == {dataset_fingerprint(arithmetic_problems(300, 11, "test"))}


def test_the_first_problems_never_change() -> None:
    """A change here changes every run that trains on this set; it must be meant."""
    assert [(expression_of(problem), problem.answer) for problem in arithmetic_problems(5)] == [
        ("7 + 4", "11"),
        ("87 - 15", "72"),
        ("37 + 46 - 23", "60"),
        (r"2 \times 12 - 8 \times 10", "-56"),
        (r"(12 + 15) \times (2 + 9) + 104 \div 4", "323"),
    ]


def test_the_source_passes_its_settings_on() -> None:
    source = DataSource("builtin:arithmetic", split="train", seed=4, count=20, levels=(2, 5))
    assert load_problems(source) == arithmetic_problems(20, 4, "train", (2, 5))


def test_an_exhausted_level_is_an_error_that_names_it() -> None:
    with pytest.raises(ProblemError, match=r"level 1 of the test split ran out after \d+ different .* lower the count"):
        arithmetic_problems(5000, split="test", levels=(1, 2))


def test_turns_of_an_exhausted_level_may_be_skipped() -> None:
    found = arithmetic_problems(1200, split="test", levels=(1, 3, 3), exhausted="skip")
    levels = Counter(problem.level for problem in found)
    assert levels[1] + levels[3] == 1200 == len({problem.id for problem in found})
    assert levels[1] < 1200 / 3
    with pytest.raises(ProblemError, match=rf"level 1 of the test split ran out after {levels[1]} different"):
        arithmetic_problems(1200, split="test", levels=(1, 3, 3))
    with pytest.raises(ProblemError, match=r"level 2 .* ran out"):
        arithmetic_problems(3000, split="test", levels=(1, 2), exhausted="skip")


def test_bad_arguments_are_reported_together() -> None:
    with pytest.raises(ProblemError) as caught:
        arithmetic_problems(0, split="validation", levels=(1, 6))
    assert len(caught.value.messages) == 3
    assert "count is 0" in str(caught.value)
    assert "'train' or 'test'" in str(caught.value)
    assert "level 6 does not exist; levels run from 1 to 5" in str(caught.value)


def test_steps_keep_needed_parentheses() -> None:
    expression = Operation("-", Number(9), Operation("-", Number(5), Number(7)))
    assert [latex(step) for step in steps(expression)] == ["9 - (5 - 7)", "9 - (-2)", "11"]


def test_division_by_a_fraction_turns_it_over() -> None:
    chain = [latex(step) for step in steps(Operation("/", Number(1, 2), Number(-3, 4)))]
    assert chain == [
        r"\frac{1}{2} \div (-\frac{3}{4})",
        r"\frac{1}{2} \times (-\frac{4}{3})",
        r"-\frac{4}{6}",
        r"-\frac{2}{3}",
    ]


def test_division_by_zero_is_refused() -> None:
    with pytest.raises(ZeroDivisionError):
        steps(Operation("/", Number(1), Operation("-", Number(2), Number(2))))
