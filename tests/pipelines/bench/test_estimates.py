"""Samples stand for the whole, with intervals that hold it as often as they say."""

import math
import random

import pytest

from pipelines.bench.estimates import Estimate, extrapolated, mean_tokens, rate
from tests.pipelines.bench.batches import simulated


def test_the_rate_of_equal_chunks_is_certain() -> None:
    found = rate([[(100, 2.0, True)] * 4])
    assert found.value == 50
    assert found.error == pytest.approx(0, abs=1e-12)


def test_a_single_chunk_tells_no_interval() -> None:
    found = rate([[(100, 2.0, True)]])
    assert found.value == 50 and math.isinf(found.error)
    assert found.as_json() == {"value": 50, "low": None, "high": None}


def test_the_interval_of_a_rate_holds_the_true_rate_as_often_as_it_says() -> None:
    draw, held, trials = random.Random(1), 0, 400
    for _ in range(trials):
        chunks = [
            (tokens, tokens / 50 * draw.lognormvariate(0, 0.1), True) for tokens in draw.sample(range(50, 500), 8)
        ]
        found = rate([chunks])
        held += found.low <= 50 / math.exp(0.005) <= found.high
    assert 0.91 <= held / trials <= 0.99


def test_rounds_that_differ_more_than_their_chunks_widen_the_interval() -> None:
    steady = [[(100, 2.0, True)] * 8] * 3
    drifting = [[(100, seconds, True)] * 8 for seconds in (1.6, 2.0, 2.4)]
    assert rate(drifting).error > 0.4 > 0.01 > rate(steady).error


def test_the_mean_of_all_problems_is_certain_and_of_some_is_not() -> None:
    lengths = [10.0, 20.0, 60.0, 30.0]
    assert mean_tokens(lengths, 4) == Estimate(30.0, 0.0)
    some, fewer = mean_tokens(lengths, 8), mean_tokens(lengths[:2], 8)
    assert some.value == 30 and 0 < some.error < fewer.error


def test_the_end_of_a_batched_run_counts_once_however_long_the_work() -> None:
    """Against a batch that is simulated at the whole length: 2 batches stand for 20 of them."""
    draw = random.Random(2)
    lengths = [round(draw.lognormvariate(5, 0.6)) for _ in range(640)]
    whole = simulated(lengths, 32)
    sample = simulated(lengths[:96], 32)
    tokens = sum(lengths)
    seconds = sum(chunk[1] for chunk in whole)
    found = extrapolated([sample], Estimate(tokens, 0.0))
    assert found.value == pytest.approx(seconds, rel=0.08)
    straight = sum(chunk[1] for chunk in sample) * tokens / sum(lengths[:96])
    assert straight > 1.1 * seconds, "the case shows nothing unless a straight line is wrong"


def test_all_of_the_work_is_what_it_took() -> None:
    chunks = simulated([40, 30, 20, 50, 10, 60], 2)
    tokens = sum(chunk[0] for chunk in chunks)
    found = extrapolated([chunks], Estimate(tokens, 0.0))
    assert found.value == pytest.approx(sum(chunk[1] for chunk in chunks))


def test_two_measurements_agree_within_both_their_errors() -> None:
    one = Estimate(10.0, 0.05)
    assert one.agrees_with(Estimate(10.6, 0.05))
    assert not one.agrees_with(Estimate(11.2, 0.05))
