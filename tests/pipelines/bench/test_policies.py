"""Policies are compared at the same latency, and where continuous batching gains nothing is said."""

from typing import Any

import pytest

from pipelines.bench.batching import POLICIES, ROWS, _chart, _judge, _text
from pipelines.bench.rounds import RowResult, Trial
from pipelines.bench.scaling import EvaluationRun, _powers
from pipelines.bench.scaling import _judge as judge_scaling
from pipelines.bench.serving import ServingRun


def served(rate: float, latency: float) -> dict[str, Any]:
    """Requests that come evenly for 1000 s and take as long as each other; 10 tokens each."""
    arrivals = [place / rate for place in range(round(1000 * rate))] if rate else [0.0] * 100
    count = len(arrivals)
    return {
        "rate": rate, "seconds": 1000.0 if rate else 0.0, "arrivals": arrivals, "tokens": [10] * count,
        "first": [latency / 2] * count, "last": [latency] * count, "blocked": [0.1] * count,
        "occupancy": 0.5, "padding_share": 0.0, "busy_share": 0.5, "limit_share": 0.1,
    }  # fmt: skip


def policy(latencies: dict[float, float]) -> ServingRun:
    traffic = [served(rate, latency) for rate, latency in latencies.items()]
    return ServingRun.read({"served": traffic, "peak_working": 1, "peak_device": None})


RUNS = {
    "continuous": policy({1.0: 1.0, 2.0: 1.2, 4.0: 2.0, 0.0: 10.0}),
    "dynamic": policy({1.0: 1.05, 2.0: 2.0, 4.0: 6.0, 0.0: 10.5}),
    "static": policy({1.0: 3.0, 2.0: 4.0, 4.0: 8.0, 0.0: 20.0}),
}


def result() -> RowResult:
    findings = _judge([[RUNS[name]] for name in POLICIES])
    return RowResult(Trial("math", ROWS["math"].compares), findings, {name: [RUNS[name]] for name in POLICIES})


def test_throughput_is_compared_at_the_same_p95_latency() -> None:
    found = {finding.what: finding for finding in result().findings}
    held = found["to dynamic, p95 within 2.00 s"]
    assert (held.ours, held.peer) == (pytest.approx(40, rel=0.01), pytest.approx(20, rel=0.01))
    assert held.target == 1.5 and held.held
    assert [finding.target for finding in found.values()].count(None) == 6
    beyond = found["to static, p95 within 2.00 s"]
    assert beyond.peer == pytest.approx(10, rel=0.01) and "at least" in beyond.notes[0]


def test_where_continuous_batching_gains_nothing_is_said() -> None:
    text = _text(result())
    assert "not worth it at:" in text
    assert "1 requests/s: dynamic's p95 latency is 1.05 x" in text
    assert "all requests there at once: 1.05 x the throughput" in text
    assert "2 requests/s: " not in text


def test_the_chart_has_a_line_for_each_policy() -> None:
    svg = _chart(result(), "a model")
    assert all(name in svg for name in POLICIES) and svg.lstrip().startswith("<svg")


def test_efficiency_is_the_speed_up_over_the_number_of_actors() -> None:
    def run(actors: int, speed: float) -> EvaluationRun:
        throughput = {"tokens_per_s": speed, "seconds": 10.0, "occupancy": 0.9, "limit_share": 0.4}
        return EvaluationRun.read(actors, {"throughput": throughput, "tokens": {"total": 100}})

    two, four = judge_scaling([[run(1, 100), run(1, 110)], [run(2, 180), run(2, 198)], [run(4, 300), run(4, 270)]])
    assert two.ratio == pytest.approx(1.8) and two.details["efficiency"] == pytest.approx(0.9)
    assert four.details["efficiency"] == pytest.approx(285 / 105 / 4)
    assert _powers(6) == [1, 2, 4] and _powers(1) == [1]
