"""Statistics of a run."""

from dataclasses import replace

import pytest

from pipelines.metrics.interval import wilson_interval
from pipelines.records.summary import summarise
from pipelines.records.table import result_table
from tests.pipelines.records.test_journal import SAMPLE


def test_without_samples_there_is_no_accuracy() -> None:
    assert summarise([], 5)["accuracy"] is summarise([], 5)["interval_95"] is None


def rows() -> list:
    spec = [
        ("Algebra", 1, "correct", "eos"),
        ("Algebra", 2, "wrong", "length"),
        ("Geometry", 2, "unparsed", "length"),
        ("Geometry", None, "timeout", "eos"),
        (None, 5, "error", "error"),
    ]
    return [
        replace(
            SAMPLE,
            problem_id=str(n),
            subject=s,
            level=level,
            verdict=v,
            finish_reason=f,
            num_tokens=0 if f == "error" else 10 * (n + 1),
        )
        for n, (s, level, v, f) in enumerate(spec)
    ]


def test_verdicts_are_counted_apart_and_faults_are_not_silently_wrong() -> None:
    found = summarise(rows(), 5)
    assert found["verdicts"] == {"correct": 1, "wrong": 1, "unparsed": 1, "timeout": 1, "error": 1}
    assert found["accuracy"] == 1 / 5
    assert found["accuracy_judged"] == 1 / 3
    assert found["fault_share"] == 2 / 5
    assert found["truncated_share"] == 2 / 4


def test_samples_of_one_problem_do_not_count_as_so_many_problems() -> None:
    """Ten problems of which four are always right: eight samples of each say no more than one."""
    samples = [
        replace(SAMPLE, problem_id=str(problem), sample_index=index, verdict="correct" if problem < 4 else "wrong")
        for problem in range(10)
        for index in range(8)
    ]
    found = summarise(samples, 80)
    assert (found["n"], found["accuracy"]) == (80, 0.4)
    assert found["interval_95"] == pytest.approx(wilson_interval(4, 10))


def test_groups_cover_every_labelled_sample_once() -> None:
    found = summarise(rows(), 5)
    assert {name: cell["n"] for name, cell in found["by_subject"].items()} == {"Algebra": 2, "Geometry": 2}
    assert {name: cell["n"] for name, cell in found["by_level"].items()} == {"1": 1, "2": 2, "5": 1}


def test_the_table_shows_what_engines_made_of_their_time_where_they_told() -> None:
    speed = {"samples": 5, "tokens": 100, "seconds": 20.0, "tokens_per_s": 5.0}
    use = {"occupancy": 0.874, "padding_share": 0.0, "limit_share": 0.41, "ideal_gain": 1.5}

    def lines(known: dict) -> list[str]:
        summary = {**summarise(rows(), 5), "model": "m", "data": "d", "throughput": known}
        return [line for line in result_table(summary).splitlines() if line.startswith(("throughput", "engines"))]

    assert lines(speed) == ["throughput   5 tokens/s, 5 samples in 20 s"]
    assert lines(speed | use)[1] == (
        "engines      87% places taken, 0% padding, 41% of the physical limit, "
        "1.50 x fewer steps than static batches, at best"
    )
    assert lines(speed | use | {"limit_share": None})[1].count("limit") == 0


def test_the_table_shows_faults_and_what_is_missing() -> None:
    text = result_table({**summarise(rows(), 8), "model": "m", "data": "d"})
    assert "1 timeout, 1 error" in text
    assert "without faults of the grader or the machine: 33.3%" in text
    assert "5 of 8 samples are there" in text


def test_the_table_shows_several_samples_and_leaves_open_what_is_undefined() -> None:
    interval = {"value": 0.25, "interval_95": [0.1, 0.5]}
    undefined = {"value": None, "interval_95": None}
    several = {
        "samples_per_problem": 8,
        "pass_at": {"1": interval, "8": undefined},
        "maj_at": {"1": {**interval, "exact": False}, "8": undefined},
        "agreement": {
            "mean": 0.5,
            "expected_calibration_error": 0.125,
            "bins": [{"from": 0.4, "to": 0.6, "problems": 3, "agreement": 0.5, "correct": 0.625}],
        },
        "votes": {"cast": 30, "without_answer": 4, "faults": 2, "problems_without_vote": 1, "problems_by_text": 3},
    }
    lines = result_table({**summarise(rows(), 5), "model": "m", "data": "d", **several}).splitlines()
    shown = [line.split() for line in lines]
    assert ["k", "=", "1", "25.0%", "10.0%", "to", "50.0%", "25.0%", "10.0%", "to", "50.0%"] in shown
    assert ["k", "=", "8", "-", "-"] in shown
    assert "maj@k is an estimate from subsets that were drawn" in lines
    assert "agreement    mean 50.0%, expected calibration error 12.5%" in lines
    assert ["40%", "to", "60%", "mean", "50.0%,", "62.5%", "right,", "3", "problem(s)"] in shown
    assert "votes        30 cast, 4 without an answer, 2 faults" in lines
    assert ["3", "problem(s)", "voted", "on", "by", "the", "text", "of", "the", "answers"] in shown
