"""What several samples of each problem say together."""

from dataclasses import replace

import pytest

from pipelines.records.journal import Sample
from pipelines.records.self_consistency import self_consistency
from pipelines.records.votes import Vote, ballots
from tests.pipelines.records.test_journal import SAMPLE


def group(problem: str, *answers: tuple[str | None, str]) -> list[Sample]:
    return [
        replace(SAMPLE, problem_id=problem, sample_index=index, answer=answer, verdict=verdict)
        for index, (answer, verdict) in enumerate(answers)
    ]


SAMPLES = [
    *group("right", ("4", "correct"), ("5", "wrong"), ("4.0", "correct"), (None, "unparsed")),
    *group("wrong", ("1", "wrong"), ("1", "wrong"), ("2", "correct"), ("3", "timeout")),
    *group("silent", (None, "unparsed"), (None, "unparsed"), (None, "error"), (None, "unparsed")),
]
PROBLEMS = ["right", "wrong", "silent"]
KS = (1, 2, 4)
BALLOTS = ballots(SAMPLES)
VOTES = {
    "right": Vote("right", BALLOTS["right"], ((0, 2), (1,)), "equivalence"),
    "wrong": Vote("wrong", BALLOTS["wrong"], ((0, 1), (2,)), "text"),
    "silent": Vote("silent", BALLOTS["silent"], (), "equivalence"),
}


def test_pass_and_maj_are_means_over_problems() -> None:
    found = self_consistency(reversed(SAMPLES), PROBLEMS, KS, VOTES)
    passed = {k: cell["value"] for k, cell in found["pass_at"].items()}
    voted = {k: cell["value"] for k, cell in found["maj_at"].items()}
    assert passed == pytest.approx({"1": 3 / 12, "2": (5 / 6 + 3 / 6) / 3, "4": 2 / 3})
    # Pairs of `right`: one of two right answers wins 1 + 2 of 6 and ties with the wrong one in 2. Pairs of `wrong`: the
    # right one wins against the fault, which is no vote, and ties in 2.
    assert voted == pytest.approx({"1": 3 / 12, "2": (4 / 6 + 2 / 6) / 3, "4": 1 / 3})
    assert all(cell["exact"] for cell in found["maj_at"].values())
    for cell in (*found["pass_at"].values(), *found["maj_at"].values()):
        low, high = cell["interval_95"]
        assert 0 <= low < cell["value"] < high <= 1


def test_faults_and_missing_answers_are_counted_and_do_not_vote() -> None:
    found = self_consistency(SAMPLES, PROBLEMS, KS, VOTES)
    assert found["votes"] == {
        "cast": 6,
        "without_answer": 4,
        "faults": 2,
        "problems_without_vote": 1,
        "problems_by_text": 1,
    }


def test_agreement_is_the_winners_share_of_all_samples_of_problems_that_have_one() -> None:
    found = self_consistency(SAMPLES, PROBLEMS, KS, VOTES)["agreement"]
    (part,) = found["bins"]
    assert (part["problems"], part["agreement"], part["correct"]) == (2, 0.5, 0.5)
    assert (found["mean"], found["expected_calibration_error"]) == (0.5, 0)


def test_where_a_problem_has_fewer_than_k_samples_pass_at_k_is_undefined() -> None:
    found = self_consistency(SAMPLES[:-1], PROBLEMS, KS, None)
    assert found["pass_at"]["2"]["value"] is not None
    assert found["pass_at"]["4"] == {"value": None, "interval_95": None}
    assert self_consistency(SAMPLES[:8], PROBLEMS, KS, None)["pass_at"]["1"]["value"] is None


def test_without_all_votes_nothing_is_said_of_majorities() -> None:
    found = self_consistency(SAMPLES, PROBLEMS, KS, None)
    assert {cell["value"] for cell in found["maj_at"].values()} == {None}
    assert found["agreement"] is found["votes"] is None
