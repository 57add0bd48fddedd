"""The grader on rows from outside: the folder that MATHLETE_GRADING_CASES names, with `cases.jsonl` (answer, gold answer,
whether they are equal), `extraction.jsonl` (completion, accepted extractions) and `hostile.jsonl` (answers that attack)."""

import json
import os
import time
from pathlib import Path

import pytest

from grading import GradingItem, GradingLimits, GradingProcess, Outcome, extract_answer

DEADLINE_S = 5.0


@pytest.fixture(scope="module")
def given():
    """Reads one file of the folder: the rows that nobody disputes."""
    folder = os.environ.get("MATHLETE_GRADING_CASES")
    if not folder:
        pytest.skip("MATHLETE_GRADING_CASES names no folder")

    def read(name):
        rows = [json.loads(line) for line in (Path(folder) / name).read_text(encoding="utf-8").splitlines()]
        return [row for row in rows if not row.get("disputed")]

    return read


@pytest.fixture
def grader(tmp_path, monkeypatch):
    """A process in an empty folder, so that whatever it might write there is seen."""
    monkeypatch.chdir(tmp_path)
    with GradingProcess(GradingLimits(deadline_s=DEADLINE_S)) as process:
        yield process
    assert not list(tmp_path.iterdir())


def boxed(row):
    return GradingItem(rf"The final answer is $\boxed{{{row['pred']}}}$", row["gold"])


def test_at_least_99_percent_of_the_pairs_are_right_and_none_is_wrongly_accepted(given, grader):
    rows = given("cases.jsonl")
    verdicts = grader.grade_batch([boxed(row) for row in rows])
    wrong = [
        (row["pred"], row["gold"], verdict)
        for row, verdict in zip(rows, verdicts, strict=True)
        if verdict.correct != row["equal"]
    ]
    assert not [pair for pair in wrong if pair[2].correct]
    assert len(wrong) <= 0.01 * len(rows), wrong


def test_at_least_98_percent_of_the_extractions_are_accepted(given):
    rows = given("extraction.jsonl")
    found = [(row["id"], extract_answer(row["completion"])) for row in rows]
    missed = [pair for row, pair in zip(rows, found, strict=True) if pair[1] not in [row["expected"], *row["accept"]]]
    assert len(missed) <= 0.02 * len(rows), missed


@pytest.mark.parametrize("form", ["{}", r"\boxed{{{}}}"])
def test_each_attack_ends_a_second_behind_its_deadline_in_a_gigabyte_and_executes_nothing(given, grader, form):
    for row in given("hostile.jsonl"):
        start = time.monotonic()
        (verdict,) = grader.grade_batch([GradingItem(form.format(row["pred"]), row["gold"])])
        assert time.monotonic() - start < DEADLINE_S + 1, row
        if form != "{}":  # a bare text is a completion that may hold another answer than all of it
            assert not (verdict.correct and row["equal"] is False), row
        assert grader.rss_kb < 1 << 20, row
    (healthy,) = grader.grade_batch([GradingItem(r"\boxed{\frac{1}{2}}", "0.5")])
    assert healthy.outcome == Outcome.CORRECT
