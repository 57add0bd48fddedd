import time

import pytest

from grading.extract import extract, extract_answer
from tests.grading.rows import read_rows

ROWS = read_rows("extraction.jsonl")


@pytest.mark.parametrize("row", [row for row in ROWS if not row["disputed"]], ids=lambda row: row["id"])
def test_extracts_what_a_careful_reader_takes(row):
    assert extract_answer(row["completion"]) in [row["expected"], *row["accept"]]


@pytest.mark.parametrize(
    "withdrawn", [r"\boxed{}", r"\boxed{ }", r"\boxed{\frac{1}{2", r"\boxed{", r"\boxed", r"\fbox{}"]
)
def test_empty_or_cut_off_last_box_never_falls_back_to_an_earlier_box_or_number(withdrawn):
    assert extract(rf"I think \boxed{{5}}. The answer is 6. #### 7 so {withdrawn}") is None


def test_only_text_after_the_last_reasoning_block_counts():
    assert extract_answer(r"<think>\boxed{1}</think> \boxed{2}") == "2"
    assert extract_answer(r"<think>\boxed{1}</think> I give up.") is None


def test_a_box_in_code_counts_only_where_there_is_no_other():
    assert extract_answer("so \\boxed{2}\n```python\n# \\boxed{1}\n```\n") == "2"
    assert extract_answer("```\n\\boxed{1}\n```") == "1"


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        (r"The answer is $x = 5$ or $x = 6$.", "x = 5 or x = 6"),
        (r"The answer is 3.14.", "3.14"),
        (r"**Answer:** 42", "42"),
        (r"Answer:" + "\n\n" + "42", "42"),
        (r"So the answer is therefore $\frac{1}{2}$ metres.", r"\frac{1}{2}"),
        (r"The answer is 5. No wait, the answer is 7.", "7"),
        ("The answer is 5! You can check it.", "5!"),
        ("The answer is $5$! You can check it.", "5"),
        ("The answer is yes! You can check it.", "yes"),
    ],
)
def test_the_last_answer_phrase_states_the_answer(completion, answer):
    found = extract(completion)
    assert found is not None
    assert (found.answer, found.strategy) == (answer, "answer phrase")


def test_strict_extraction_takes_no_number_that_is_only_mentioned():
    assert extract_answer("That makes 7 apples.") == "7"
    assert extract("That makes 7 apples.", lenient=False) is None


def test_digits_inside_a_formula_are_not_the_last_number():
    assert extract("10^{10^{10}}") is None
    assert extract("3!!!") is None
    assert extract(r"\begin{pmatrix} 1 & 2&3 \end{pmatrix}") is None


MEGABYTE = 10**6
HUGE = {
    "openings": "\\boxed{" * (MEGABYTE // 7),
    "boxes": "\\boxed{1}" * (MEGABYTE // 9),
    "prose": "\\boxed and " * (MEGABYTE // 11),
    "phrases": "answer is " * (MEGABYTE // 10),
    "stars": "answer" + "*" * MEGABYTE,
    "fillers": "answer is " + "therefore " * (MEGABYTE // 10),
    "backquotes": "`" * MEGABYTE,
    "fences": "```\n" * (MEGABYTE // 4),
    "dollars": "$" * MEGABYTE,
    "delimiters": "\\[" * (MEGABYTE // 2),
    "braces": "{" * MEGABYTE,
    "blanks": "the answer is " + " " * MEGABYTE + "x",
    "lines": "\n" * MEGABYTE,
    "digits": "1" * MEGABYTE,
    "groups": "\\boxed 1" + ",1" * (MEGABYTE // 2),
    "backslashes": "\\" * MEGABYTE + "boxed{3}",
    "markers": "####" * (MEGABYTE // 4),
}


@pytest.mark.parametrize("name", HUGE)
def test_time_is_linear_on_a_megabyte_of_anything(name):
    started = time.process_time()
    extract(HUGE[name])
    assert time.process_time() - started < 1.0
