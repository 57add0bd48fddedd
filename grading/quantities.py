"""Rules for single values: numbers and expressions with units and percent signs, and numerals with a base.

Each rule returns the phrase that names it in a verdict, or an empty string where it does not apply.
"""

import sympy

from grading.constants import same_family
from grading.equality import equal
from grading.kinds import Numeral, Quantity
from grading.numeric import NotComputable, evaluate
from grading.series import has_series
from grading.units import KNOWN, parse_unit

DOUBLE_PRECISION_PLACES = 14
DOUBLE_PRECISION = 1e-13  # of the value, so that a string of zeros stands for nothing


def match_quantities(answer: Quantity, gold: Quantity) -> str:
    """Units must agree where both sides have one; a percent sign is a factor of 1/100."""
    if answer.percent != gold.percent:
        return match_percentage(answer, gold)
    if gold.unit is not None and gold.unit.dimension and gold.value.is_number:
        answer = with_letters_as_units(answer)
    value, gold_value = answer.value, gold.value
    if has_series(value) and not has_series(gold_value):  # it states the task once more
        return ""
    if answer.unit is not None and gold.unit is not None and answer.unit.dimension and gold.unit.dimension:
        if answer.unit.dimension != gold.unit.dimension:
            return ""
        value = value * sympy.Rational(answer.unit.factor.numerator, answer.unit.factor.denominator)
        gold_value = gold_value * sympy.Rational(gold.unit.factor.numerator, gold.unit.factor.denominator)
    if value == gold_value:
        return "equal numbers" if value.is_number else "equal expressions"
    if equal(value, gold_value):
        return "equal values"
    if answer.unit is None and gold.unit is None and same_family(value, gold_value):
        return "equal up to the name of the constant"
    return match_radians(answer, gold) or match_long_decimal(answer, gold)


def with_letters_as_units(answer: Quantity) -> Quantity:
    """`240 m^2` as an area instead of a product, which is only done where the gold answer is a number with a unit."""
    if answer.unit is not None or answer.value.is_number:
        return answer
    number, letters = answer.value.as_independent(*answer.value.free_symbols, as_Add=False)
    powers = letters.as_powers_dict()
    if not all(base.is_Symbol and power.is_Integer for base, power in powers.items()):
        return answer
    above = [f"{base}^{power}" for base, power in powers.items() if power > 0]
    below = [f"per {base}^{-power}" for base, power in powers.items() if power < 0]
    unit = parse_unit(" ".join(above + below))
    known = unit is not None and all(name in KNOWN for name, _ in unit.dimension)
    return Quantity(number, unit) if known else answer


def match_percentage(answer: Quantity, gold: Quantity) -> str:
    """`28\\%` is 0.28. A gold answer in percent also accepts the bare 28, because its problem asks for a percentage;
    a bare gold answer does not accept a percent sign on the same number."""
    if gold.percent and answer.unit is None and equal(answer.value, gold.value):
        return "percent sign omitted"
    factor = sympy.Rational(1, 100)
    value = answer.value * factor if answer.percent else answer.value
    gold_value = gold.value * factor if gold.percent else gold.value
    bare = answer.unit is None and gold.unit is None
    return "equal percentage" if bare and equal(value, gold_value) else ""


def match_radians(answer: Quantity, gold: Quantity) -> str:
    """One angle in degrees, the other a multiple of pi."""
    for degrees, radians in ((answer, gold), (gold, answer)):
        is_angle = degrees.unit is not None and degrees.unit.dimension == (("angle", 1),)
        if is_angle and radians.unit is None and radians.value.has(sympy.pi):
            return "same angle" if equal(degrees.value * sympy.pi / 180, radians.value) else ""
    return ""


def match_long_decimal(answer: Quantity, gold: Quantity) -> str:
    """A decimal written to double precision stands for the irrational or repeating number that it rounds."""
    if answer.decimals < DOUBLE_PRECISION_PLACES or gold.decimals or gold.value.is_Integer or gold.value.free_symbols:
        return ""
    try:
        difference = abs(evaluate(answer.value - gold.value, {}))
        size = abs(evaluate(gold.value, {}))
    except NotComputable:
        return ""
    close = difference <= 2 * 10.0**-answer.decimals and difference <= DOUBLE_PRECISION * size
    return "equal to double precision" if close else ""


def match_numerals(answer: Numeral, gold: Numeral) -> str:
    return "same numeral" if answer == gold else ""


def match_omitted_base(answer: Quantity, gold: Numeral) -> str:
    """The problem fixes the base, so it is often left out."""
    plain = answer.value.is_Integer and answer.value.is_nonnegative and answer.unit is None and not answer.percent
    same = plain and gold.digits.isdigit() and answer.value == int(gold.digits)
    return "base omitted" if same and not answer.decimals else ""


def match_base_ten(answer: Numeral, gold: Quantity) -> str:
    """A subscript ten only states what a plain number is."""
    return "equal numbers" if answer.base == 10 and gold.value == int(answer.digits) else ""
