"""Agreement against correctness, bin by bin."""

import pytest

from pipelines.metrics.agreement import calibration


def test_the_error_is_the_mean_distance_weighted_by_problems() -> None:
    found = calibration([0.25, 0.3, 0.9, 1.0, 1.0], [0, 1, 1, 1, 0], bins=5)
    assert [(part["from"], part["to"], part["problems"]) for part in found["bins"]] == [(0.2, 0.4, 2), (0.8, 1.0, 3)]
    low, high = found["bins"]
    assert (low["agreement"], low["correct"]) == (pytest.approx(0.275), 0.5)
    assert (high["agreement"], high["correct"]) == (pytest.approx(2.9 / 3), pytest.approx(2 / 3))
    assert found["expected_calibration_error"] == pytest.approx((2 * 0.225 + 3 * 0.3) / 5)
    assert found["mean"] == pytest.approx(3.45 / 5)


def test_agreement_that_is_the_chance_of_being_right_has_no_error() -> None:
    assert calibration([0.5] * 4, [1, 0, 1, 0])["expected_calibration_error"] == 0


def test_a_value_on_a_border_belongs_to_the_part_above() -> None:
    for value, low in ((0.2, 0.2), (0.6, 0.6), (3 * 0.2, 0.6), (0.8, 0.8), (1.0, 0.8), (0.0, 0.0)):
        (part,) = calibration([value], [1])["bins"]
        assert part["from"] == pytest.approx(low)


def test_without_problems_there_is_nothing_to_say() -> None:
    assert calibration([], []) == {"mean": None, "expected_calibration_error": None, "bins": []}
