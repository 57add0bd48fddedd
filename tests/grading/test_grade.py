import pytest

from grading import Outcome, grade
from tests.grading.rows import read_golds


@pytest.mark.data
def test_every_reference_solution_is_correct(data_folder):
    for row in read_golds(data_folder):
        assert grade(row["solution"], row["answer"]).correct, row["answer"]


def test_a_verdict_names_the_answer_and_how_it_was_found():
    verdict = grade(r"Hence $\boxed{\frac{2}{4}}$.", "0.5")
    assert (verdict.outcome, verdict.answer, verdict.extraction) == (Outcome.CORRECT, r"\frac{2}{4}", "boxed")


def test_a_completion_without_an_answer_is_unparsed():
    assert grade("I do not know.", "5").outcome is Outcome.UNPARSED
    assert grade("It makes 5.", "5", lenient=False).outcome is Outcome.UNPARSED


def test_a_wrong_answer_is_wrong():
    assert grade(r"\boxed{6}", "5").outcome is Outcome.WRONG
