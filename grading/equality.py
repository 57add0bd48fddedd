"""Equality of expressions.

Equal structure and equal rationals are exact. Everything else is decided by values: a constant at 60 digits, an
expression with variables at fixed pseudo-random points, both far finer than any approximation an answer may state.
A symbolic `simplify` would give the same answers where it ends, and does not always end.
"""

import random
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import sympy
from sympy import Expr
from sympy.core.function import AppliedUndef

from grading.bounds import height
from grading.numeric import CHECKING, WORKING, NotComputable, evaluate
from grading.series import is_finite

TOLERANCE = 1e-40  # relative, at 60 digits: leaves 20 for cancellation inside the expressions
VANISHING = 1e-30  # below this a difference may be cancellation noise, and 150 digits decide
VANISHED = 1e-120
MAX_NAMED_BITS = 10_000  # Python prints no integer beyond 4,300 digits
POINTS = 10
WHOLE_POINTS = (-3, 0, 2)
STEPS = (sympy.floor, sympy.ceiling)
ENOUGH_POINTS = 3


def equal(left: Expr, right: Expr) -> bool:
    """Whether two expressions have the same value for all values of their variables.

    Variables are real, and only points where both sides are real count (`\\sqrt{1/n}` and `1/\\sqrt{n}` agree on all of
    those), unless the expressions are complex everywhere.
    """
    if left == right:
        return True
    if left.is_Rational and right.is_Rational:
        return False
    if left.is_infinite or right.is_infinite or left.has(sympy.oo) or right.has(sympy.oo):
        return False
    compared = agreeing_points(left, right)
    return compared >= (ENOUGH_POINTS if left.free_symbols | right.free_symbols else 1)


def agreeing_points(left: Expr, right: Expr) -> int:
    """How many points could be compared, all of them in agreement; 0 as soon as one disagrees.

    A disagreement where a side is not real may come from the choice of a branch. It only takes the vote away from the
    other points of that sort.
    """
    left, right = without_functions(left), without_functions(right)
    complex_values = left.has(sympy.I) or right.has(sympy.I)
    compared = complex_agreements = 0
    steps = left.has(*STEPS) or right.has(*STEPS)
    for point in points(left.free_symbols | right.free_symbols, whole=steps):
        try:
            values = evaluate(left, point), evaluate(right, point)
            same = close(*values) or same_at_high_precision(left, right, point, *values)
        except NotComputable:
            continue
        if complex_values or all(is_real(value) for value in values):
            if not same:
                return 0
            compared += 1
        else:
            complex_agreements = complex_agreements + 1 if same else -POINTS
    return compared + max(complex_agreements, 0)


def proportional(left: Expr, right: Expr, positive: bool = False) -> bool:
    """Whether `left` is a constant multiple of `right`, as the two sides of one equation are; with `positive` the
    constant must be positive, as for inequalities."""
    left, right = without_functions(left), without_functions(right)
    symbols = left.free_symbols | right.free_symbols
    first = None
    compared = 0
    for point in points(symbols):
        try:
            values = evaluate(left, point), evaluate(right, point)
        except NotComputable:
            continue
        if not all(is_real(value) for value in values):
            continue
        if any(abs(value) < VANISHING for value in values):
            return False
        ratio = WORKING.re(values[0]) / WORKING.re(values[1])
        if first is not None and not close(first, ratio):
            return False
        first = ratio if first is None else first
        compared += 1
    return first is not None and compared > ENOUGH_POINTS and (first > 0 or not positive)


def close(left: Any, right: Any) -> bool:
    return bool(abs(left - right) <= TOLERANCE * max(abs(left), abs(right)))


def is_real(value: Any) -> bool:
    return bool(abs(WORKING.im(value)) <= VANISHING * max(abs(value), VANISHING))


def same_at_high_precision(left: Expr, right: Expr, point: dict[Expr, Any], a: Any, b: Any) -> bool:
    """Whether a tiny difference is noise: noise shrinks with the precision, and a difference between values stays."""
    if abs(a - b) > VANISHING:
        return False
    return bool(abs(evaluate(left, point, CHECKING) - evaluate(right, point, CHECKING)) < VANISHED)


def points(symbols: set[Expr], whole: bool = False) -> Iterator[dict[Expr, Any]]:
    """Values for the symbols: half of the points positive, one negative, the rest of both signs. A constant needs one
    (empty) point. With `whole` there are whole numbers too, where step functions jump."""
    ordered = sorted(symbols, key=str)
    if whole and ordered:
        for number in WHOLE_POINTS:
            yield {symbol: CHECKING.mpf(number + place) for place, symbol in enumerate(ordered)}
    for index in range(POINTS if ordered else 1):
        yield {symbol: coordinate(str(symbol), index) for symbol in ordered}


@lru_cache(maxsize=1024)
def coordinate(name: str, index: int) -> Any:
    source = random.Random(f"{name}/{index}")
    value = CHECKING.mpf(source.randrange(2 * 10**8, 40 * 10**8)) / (10**9 + 7)
    negative = index == POINTS // 2 or (index > POINTS // 2 and source.random() < 0.5)
    return -value if negative else value


def without_functions(expression: Expr) -> Expr:
    """`f(2)` of an unknown function is a variable of its own, and so is a series that cannot be added up. Calls with
    numbers too long to be printed stay, so that nothing about them can be shown."""
    calls = {call for call in expression.atoms(AppliedUndef) if not is_finite(call) and height(call) < MAX_NAMED_BITS}
    if not calls:
        return expression
    return expression.xreplace({call: sympy.Symbol(sympy.srepr(call)) for call in calls})
