"""Ratios are medians of the right things."""

from random import Random
from typing import Any

import pytest

from pipelines.bench.findings import (
    Finding,
    first_token,
    growth,
    memory_above,
    share_of_ideal,
    speed,
)
from pipelines.bench.measurement import Measurement
from pipelines.records.engine_use import ideal_gain


def run(lengths: tuple[int, ...] = (10,), seconds: float = 1.0, **fields: Any) -> Measurement:
    return Measurement(lengths, seconds, 0, **fields)


def steps_taken(lengths: list[int], places: int, static: bool) -> int:
    """Steps until all are done, when each live row gets a token a step."""
    waiting, live, steps = list(lengths), [], 0
    while waiting or live:
        if not (static and live):
            joining = places - len(live)
            live += waiting[:joining]
            waiting = waiting[joining:]
        live = [left - 1 for left in live if left > 1]
        steps += 1
    return steps


@pytest.mark.parametrize("seed", range(20))
def test_the_ideal_gain_bounds_what_any_continuous_order_reaches(seed: int) -> None:
    random = Random(seed)
    lengths = [random.randint(1, 30) for _ in range(random.randint(1, 40))]
    places = random.randint(1, 10)
    static, continuous = (steps_taken(lengths, places, kind) for kind in (True, False))
    assert ideal_gain(lengths, places) >= static / continuous - 1e-12
    assert ideal_gain(lengths, places) >= 1


def test_the_ideal_gain_by_hand() -> None:
    assert ideal_gain([4, 1, 3, 1], 2) == (4 + 3) / max(4, 9 / 2)
    assert ideal_gain([5, 5, 5, 5], 2) == 1
    assert ideal_gain([7, 2], 64) == 1, "with fewer rows than places the longest decides both"


def test_speed_is_the_ratio_of_median_rates_and_its_range_that_of_rounds() -> None:
    ours = [run(seconds=seconds) for seconds in (1.0, 0.5, 2.0)]  # 10, 20, 5 tokens a second
    peer = [run(seconds=seconds) for seconds in (2.0, 10.0, 5.0)]  # 5, 1, 2
    found = speed(ours, peer, 5.0)
    assert (found.ours, found.peer, found.ratio) == (10, 2, 5)
    assert (found.low, found.high) == (2, 20)
    assert found.held


def test_time_to_first_token_is_better_when_less() -> None:
    found = first_token([run(first_token_s=0.1)], [run(first_token_s=0.5)], 4.0)
    assert found.ratio == pytest.approx(5)
    assert (found.ours, found.peer) == (pytest.approx(100), pytest.approx(500))


def test_the_share_of_the_ideal_takes_lengths_in_the_order_of_the_static_run() -> None:
    static = run((4, 3, 1, 1), seconds=2.0, order=(0, 2, 1, 3))  # batches (4, 1) and (3, 1)
    found = share_of_ideal([run((4, 3, 1, 1), seconds=1.5)], [static], 2, 0.85)
    assert found.peer == ideal_gain([4, 1, 3, 1], 2)
    assert found.ours == pytest.approx(2.0 / 1.5)
    assert found.ratio == pytest.approx(found.ours / found.peer)


def test_memory_above_is_what_neither_libraries_nor_weights_nor_used_pool_explain() -> None:
    memory = {"before": 300, "weights": 200, "pool": 5000, "pool_used": 200, "pool_reached": 300, "peak": 850}
    found = memory_above([run(memory=memory)], 0.2)
    assert found.ratio == pytest.approx(50 / 500)
    assert found.held
    assert not memory_above([run(memory={**memory, "peak": 1000})], 0.2).held


@pytest.mark.parametrize(("power", "held"), [(1.0, True), (0.5, True), (2.0, False)])
def test_growth_tells_linear_from_more(power: float, held: bool) -> None:
    steps = tuple((float(context), 0.01 + 1e-5 * context**power) for context in range(129, 1024))
    found = growth([run(steps=steps)], 16, 1.1)
    assert found.held is held
    curve = found.details["ms_a_token_by_context"]
    assert list(curve) == list(range(128, 1025, 128))
    assert curve[512] == pytest.approx(1000 * (0.01 + 1e-5 * 512**power) / 16)


def test_a_finding_without_a_target_is_neither_held_nor_missed() -> None:
    assert Finding("speed", "tok/s", 1, 1, 1, 1, 1, None).held is None
