from fractions import Fraction

import pytest

from grading.units import Unit, parse_unit


@pytest.mark.parametrize(
    ("first", "second"),
    [("square inches", "in^2"), ("inches ^ { 2 }", "inches squared"), ("cubic feet", "ft^3"), ("mph", "miles per hour"),
     ("km/h", "kilometers per hour"), ("hrs", "hours"), ("sq. units", "units"), ("days", "day"), ("lbs", "pounds"), ("m^2 per s", "square meters per second")],
)  # fmt: skip
def test_spellings_of_one_unit_agree(first, second):
    assert parse_unit(first) == parse_unit(second) is not None


def test_conversion_factors_multiply_with_the_power():
    assert parse_unit("cm^2") == Unit((("metric length", 2),), Fraction(1, 10_000))


@pytest.mark.parametrize(
    "phrase", ["or so", "and", "squared", "per", "more than", "in base", "", "half", "to infinity", "st"]
)
def test_phrases_that_change_the_number_are_no_units(phrase):
    assert parse_unit(phrase) is None
