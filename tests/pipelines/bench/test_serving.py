"""Traffic is what it says, and latencies are counted from arrivals."""

import math
from dataclasses import replace
from statistics import mean
from typing import Any

import pytest

from pipelines.bench.serving import ServingRun, percentiles, pooled, throughput_within
from pipelines.bench.traffic import MEDIAN_TOKENS, at_once, lognormal, poisson

PROMPTS = [(place, place + 1) for place in range(10, 40)]


def test_arrivals_are_a_poisson_process() -> None:
    """Mean and variance of the number in a second are the rate; waits are exponential."""
    made = poisson(5.0, 4000.0, PROMPTS, [10], seed=3)
    counts = [0] * 4000
    for arrival in made.arrivals:
        counts[int(arrival)] += 1
    middle = mean(counts)
    assert middle == pytest.approx(5, rel=0.03)
    assert mean((count - middle) ** 2 for count in counts) == pytest.approx(5, rel=0.1)
    waits = [late - early for early, late in zip(made.arrivals, made.arrivals[1:], strict=False)]
    assert mean(wait > 0.2 for wait in waits) == pytest.approx(math.exp(-1), abs=0.01)


def test_the_same_seed_gives_the_same_traffic_and_prompts_come_again_only_when_all_were_used() -> None:
    one, same, other = (poisson(3.0, 20.0, PROMPTS, [5, 50], seed) for seed in (1, 1, 2))
    assert one == same != other
    together = at_once(len(PROMPTS), PROMPTS, [5], seed=0)
    assert sorted(together.prompts) == PROMPTS and set(together.arrivals) == {0.0}


def test_lengths_without_data_are_log_normal_and_cut() -> None:
    lengths = sorted(lognormal(4001, 512))
    assert lengths[2000] == pytest.approx(MEDIAN_TOKENS, rel=0.05)
    assert lengths[-1] == 512 and lengths[0] >= 1


def found(rate: float, latency: float, *, seconds: float = 10.0, tokens: int = 20) -> dict[str, Any]:
    """One request each half second, each as long as the other."""
    arrivals = [place / 2 for place in range(round(2 * seconds))] if rate else [0.0] * 20
    return {
        "rate": rate, "seconds": seconds if rate else 0.0, "arrivals": arrivals, "tokens": [tokens] * len(arrivals),
        "first": [latency / 4] * len(arrivals), "last": [latency] * len(arrivals), "blocked": [0.0] * len(arrivals),
        "occupancy": 0.5, "padding_share": 0.0, "busy_share": 0.5, "limit_share": 0.1,
    }  # fmt: skip


def run(*traffic: dict[str, Any]) -> ServingRun:
    return ServingRun.read({"served": list(traffic), "peak_working": 1, "peak_device": None})


def test_throughput_counts_what_ends_while_requests_arrive_and_the_warm_up_counts_nowhere() -> None:
    (served,) = run(found(2.0, 1.9)).served
    assert served.requests == 16, "those that arrived in the first fifth do not count"
    assert served.tokens_per_s == pytest.approx(2 * 20)
    assert served.per_token[50] == pytest.approx(0.75 * 1.9 / 19)
    (all_there,) = run(found(0.0, 4.0)).served
    assert all_there.requests == 20 and all_there.tokens_per_s == pytest.approx(20 * 20 / 4)


def test_rounds_are_pooled_into_one() -> None:
    (pool,) = pooled([run(found(2.0, 1.0)), run(found(2.0, 3.0))])
    assert pool.requests == 32
    assert (pool.end_to_end[50], pool.end_to_end[95]) == (1.0, 3.0)
    assert pool.tokens_per_s == pytest.approx(40, rel=0.1)


def test_percentiles_are_of_nearest_rank() -> None:
    assert percentiles(range(1, 101)) == {50: 50, 95: 95, 99: 99}
    assert percentiles([7.0]) == {50: 7.0, 95: 7.0, 99: 7.0}


def test_throughput_at_a_latency_lies_on_the_line_between_two_rates() -> None:
    points = ((1.0, 10.0, 2.0), (2.0, 20.0, 4.0), (3.0, 28.0, 8.0))
    served = [replace(run(found(rate, p95)).served[0], tokens_per_s=speed) for rate, speed, p95 in points]
    within = {bound: throughput_within(served, bound) for bound in (1.9, 2.0, 3.0, 4.0, 6.0, 99.0)}
    assert within == {1.9: 0, 2.0: 10, 3.0: 15, 4.0: 20, 6.0: 24, 99.0: 28}
