"""From completions to journal lines, and what the generators' counters say of a run."""

from dataclasses import replace

from actors.engine.requests import Completion, Timing
from grading import Outcome, Verdict
from pipelines.dispatch.work import Unit
from pipelines.evaluate import Generated, make_sample
from pipelines.problems import Problem, Prompt

MADE = Completion("p", 2, "4", (7, 8), (-1.0, -2.0), (-1.0, -2.0), "eos", policy_version=6, timing=Timing(0.25, 1.5))
GENERATED = Generated(MADE, Problem("p", "2 + 2", "4"), Unit("unit-1", ("p",)), "generator-0", seconds=9.0)


def test_a_sample_has_the_times_of_its_own_tokens_and_the_version_of_its_weights() -> None:
    sample = make_sample(GENERATED, Verdict(Outcome.CORRECT, "same"), Prompt("2 + 2", [5]))
    assert (sample.first_token_s, sample.seconds, sample.policy_version) == (0.25, 1.5, 6)


def test_a_sample_without_a_token_has_the_seconds_of_its_unit() -> None:
    failed = replace(GENERATED, completion=replace(MADE, token_ids=(), timing=None))
    sample = make_sample(failed, None, Prompt("2 + 2", [5]))
    assert (sample.first_token_s, sample.seconds) == (None, 9.0)
