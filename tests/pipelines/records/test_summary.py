"""Statistics of a run."""

import math
import random
from dataclasses import replace

import pytest

from pipelines.records.summary import Z_95, summarise, wilson_interval
from pipelines.records.table import result_table
from tests.pipelines.records.test_journal import SAMPLE


def test_the_interval_solves_the_score_equation() -> None:
    """Wilson's bounds are the p at which the observed share lies 1.96 standard errors (of p) away."""
    for successes, trials in ((0, 10), (3, 10), (10, 10), (250, 500)):
        interval = wilson_interval(successes, trials)
        assert interval is not None
        for bound in interval:
            if 1e-9 < bound < 1 - 1e-9:
                distance = abs(successes / trials - bound) / math.sqrt(bound * (1 - bound) / trials)
                assert distance == pytest.approx(Z_95)
        assert 0 <= interval[0] <= successes / trials <= interval[1] + 1e-12 <= 1 + 1e-12


def test_the_interval_covers_the_truth_in_95_of_100_runs() -> None:
    draw = random.Random(0)
    for truth in (0.05, 0.3, 0.8):
        hits = 0
        for _ in range(2000):
            interval = wilson_interval(sum(draw.random() < truth for _ in range(100)), 100)
            assert interval is not None
            hits += interval[0] <= truth <= interval[1]
        assert 0.93 <= hits / 2000 <= 0.975


def test_no_trials_have_no_interval() -> None:
    assert wilson_interval(0, 0) is None
    assert summarise([], 5)["accuracy"] is None


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
