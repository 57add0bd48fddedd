"""Answers that attack the grader, through a real grading process."""

import pytest

from grading import GradingItem, GradingLimits, GradingProcess, Outcome, grade
from tests.grading.huge import HUGE
from tests.grading.rows import read_rows

HOSTILE = read_rows("hostile.jsonl") + [{"pred": text, "gold": "42", "equal": None} for text in HUGE.values()]
GOOD = [GradingItem(rf"so \boxed{{{row['pred']}}}", row["gold"]) for row in read_rows("pairs.jsonl")]


@pytest.fixture(scope="module")
def grader(tmp_path_factory):
    """A process in an empty directory, so that whatever it might write there is seen."""
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with GradingProcess(GradingLimits(deadline_s=5.0)) as process:
            yield process
    assert not list(folder.iterdir())


@pytest.mark.parametrize("form", ["{}", r"\boxed{{{}}}", "the answer is {}"])
def test_hostile_completions_end_in_time_and_harm_nothing(grader, form):
    pid = grader.pid
    verdicts = grader.grade_batch([GradingItem(form.format(row["pred"]), row["gold"]) for row in HOSTILE])
    assert len(verdicts) == len(HOSTILE)
    assert not any(verdict.correct for row, verdict in zip(HOSTILE, verdicts, strict=True) if row["equal"] is False)
    assert {verdict.outcome for verdict in verdicts} <= {Outcome.CORRECT, Outcome.WRONG, Outcome.UNPARSED}
    assert grader.pid == pid
    assert grader.rss_kb < 1 << 20


def test_hostile_gold_answers_harm_nothing_either(grader):
    pid = grader.pid
    verdicts = grader.grade_batch([GradingItem(r"\boxed{1}", row["pred"]) for row in HOSTILE])
    assert len(verdicts) == len(HOSTILE)
    assert grader.pid == pid


def test_good_answers_keep_their_verdicts_among_hostile_ones(grader):
    mixed = []
    for index, item in enumerate(GOOD):
        mixed.append(item)
        if index % 10 == 9:
            row = HOSTILE[index // 10 % len(HOSTILE)]
            mixed.append(GradingItem(row["pred"], row["gold"]))
    verdicts = grader.grade_batch(mixed)
    of_good = [verdict for item, verdict in zip(mixed, verdicts, strict=True) if item in GOOD]
    assert of_good == [grade(item.completion, item.gold) for item in GOOD]
