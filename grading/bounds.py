"""Sympy objects built within limits.

Sympy evaluates numbers as it builds them, so `10^{10^{10}}` would be computed on construction. Every constructor whose
result can be far larger than its arguments goes through this module, which estimates the size first and raises
`Unreadable("number too large")` instead of building it.
"""

import math

import sympy
from sympy import Expr, Integer, Rational

from grading.numeric import NotComputable, evaluate
from grading.unreadable import Unreadable

MAX_DIGITS = 1_000  # of a written number
MAX_BITS = 100_000  # of an integer that a power may produce: 30,000 digits, built in microseconds
MAX_EXPONENT = 10_000
MAX_SYMBOL_EXPONENT = 10**9  # x^n stays unevaluated, so only its numeric value has to be in reach
MAX_FACTORIAL = 5_000
MAX_CHOSEN = 20  # \binom{n}{k} with symbolic n is written out as a product of k factors


def number(literal: str) -> Expr:
    """The exact rational that a decimal literal such as `12`, `.5` or `1.5e3` writes."""
    mantissa, _, exponent = literal.lower().partition("e")
    whole, _, decimals = mantissa.partition(".")
    if len(whole) + len(decimals) > MAX_DIGITS or len(exponent) > 5:
        raise Unreadable("number too large")
    shift = int(exponent or 0) - len(decimals)
    if abs(shift) > MAX_DIGITS:
        raise Unreadable("number too large")
    digits = int(whole + decimals)
    return Integer(digits * 10**shift) if shift >= 0 else Rational(digits, 10**-shift)


def power(base: Expr, exponent: Expr) -> Expr:
    """`base ** exponent`; refuses numeric exponents whose result could not be held or evaluated."""
    if not exponent.free_symbols:
        size = magnitude(exponent)
        if base.is_Symbol:
            if size > MAX_SYMBOL_EXPONENT:
                raise Unreadable("number too large")
        elif size > MAX_EXPONENT or size * height(base) > MAX_BITS:
            raise Unreadable("number too large")
        if exponent.is_Rational and int(exponent.q) > MAX_EXPONENT:
            raise Unreadable("number too large")
    return defined(sympy.Pow(base, exponent))


def root(radicand: Expr, index: Expr) -> Expr:
    """The `index`-th root. An odd root of a negative number is the real one, as answers mean it."""
    if index.is_zero:
        raise Unreadable("undefined value")
    if index.is_Integer and int(index) % 2 == 1 and radicand.is_Rational and radicand.is_negative:
        return -power(-radicand, 1 / index)
    return power(radicand, 1 / index)


def quotient(numerator: Expr, denominator: Expr) -> Expr:
    """`numerator / denominator`; a zero denominator is undefined rather than sympy's complex infinity."""
    if denominator.is_zero:
        raise Unreadable("undefined value")
    return defined(numerator / denominator)


def factorial(argument: Expr) -> Expr:
    """`argument!` for small integers and for symbolic arguments."""
    if argument.free_symbols:
        return sympy.factorial(argument)
    if not argument.is_Integer or argument.is_negative or int(argument) > MAX_FACTORIAL:
        raise Unreadable("number too large")
    return Integer(math.factorial(int(argument)))


def binomial(upper: Expr, lower: Expr) -> Expr:
    """`upper` choose `lower`, written out as a polynomial where only `upper` is symbolic."""
    if upper.is_Integer and lower.is_Integer:
        if not 0 <= int(upper) <= MAX_FACTORIAL or int(lower) < 0:
            raise Unreadable("number too large")
        return Integer(math.comb(int(upper), int(lower)))
    if lower.is_Integer and 0 <= int(lower) <= MAX_CHOSEN:
        product: Expr = Integer(1)
        for k in range(int(lower)):
            product = product * (upper - k)
        return product / math.factorial(int(lower))
    return factorial(upper) / (factorial(lower) * factorial(upper - lower))


def magnitude(value: Expr) -> float:
    """|value| of a constant as a float, infinite where it is out of reach."""
    if value.is_Rational:
        return abs(int(value.p)) / int(value.q) if int(value.p).bit_length() < 1000 else math.inf
    try:
        size = abs(evaluate(value, {}))
    except NotComputable:
        return math.inf
    return float(size) if size < 1e300 else math.inf


def height(value: Expr) -> float:
    """Bits of the largest number inside `value`: what an evaluated power multiplies by its exponent."""
    bits = [max(int(n.p).bit_length(), int(n.q).bit_length()) for n in value.atoms(Rational)]
    return max(bits, default=1)


def defined(value: Expr) -> Expr:
    """`value` itself, unless it is indeterminate (`0/0`, `\\infty - \\infty`) or complex infinity."""
    if value.has(sympy.nan, sympy.zoo):
        raise Unreadable("undefined value")
    return value
