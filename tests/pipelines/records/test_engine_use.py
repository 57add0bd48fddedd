"""Shares by hand."""

import pytest

from pipelines.records.engine_use import engine_use, ideal_gain


@pytest.mark.parametrize(
    ("lengths", "batch_size", "gain"),
    [
        ([], 4, 1.0),
        ([10, 10, 10, 10], 2, 1.0),
        ([10, 2, 2, 10], 2, 20 / 12),
        ([100, 1, 1, 1], 2, 101 / 100),
        ([5, 5, 1], 2, 6 / 5.5),
    ],
)
def test_ideal_gain_of_joining_at_every_step(lengths: list[int], batch_size: int, gain: float) -> None:
    assert ideal_gain(lengths, batch_size) == pytest.approx(gain)


def test_shares_are_of_sums_over_all_generators() -> None:
    first = {"steps": 10, "row_steps": 30, "place_steps": 40, "tokens_sampled": 25, "prompt_tokens": 70}
    second = {"steps": 5, "row_steps": 10, "place_steps": 40, "tokens_sampled": 5, "padding_tokens": 100}
    timed = {"busy_s": 4.0, "least_s": 1.0, "preemptions": 2, "prefix_tokens_shared": 9}
    found = engine_use([first | timed, second, {"steps": 0}], [10, 2, 2, 10], 2)
    assert found == {
        "occupancy": 0.5,
        "padding_share": 0.5,
        "limit_share": 0.25,
        "ideal_gain": 1.667,
        "preemptions": 2,
        "prefix_tokens_shared": 9,
    }


def test_what_nobody_told_is_none() -> None:
    found = engine_use([{}], [], 4)
    assert (found["occupancy"], found["padding_share"], found["limit_share"]) == (None, None, None)
