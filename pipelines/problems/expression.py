"""Exact arithmetic expressions: their LaTeX, and their evaluation one written step at a time."""

from dataclasses import dataclass
from math import gcd, lcm

SIGNS = {"+": "+", "-": "-", "*": r"\times", "/": r"\div"}
PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number (`denominator` 1) or a fraction as it is written, in lowest terms or not."""

    numerator: int
    denominator: int = 1


@dataclass(frozen=True, slots=True)
class Operation:
    """`sign` is one of + - * /."""

    sign: str
    left: "Expression"
    right: "Expression"


Expression = Number | Operation


def latex(expression: Expression) -> str:
    """The expression in LaTeX with the parentheses that it needs and no others."""
    if isinstance(expression, Number):
        return _number_latex(expression)
    left, right = latex(expression.left), latex(expression.right)
    own = PRECEDENCE[expression.sign]
    if isinstance(expression.left, Operation) and PRECEDENCE[expression.left.sign] < own:
        left = f"({left})"
    # The right operand of equal rank keeps its parentheses even where the value would not change.
    if isinstance(expression.right, Operation):
        right = f"({right})" if PRECEDENCE[expression.right.sign] <= own else right
    elif expression.right.numerator < 0:
        right = f"({right})"
    return f"{left} {SIGNS[expression.sign]} {right}"


def _number_latex(number: Number) -> str:
    if number.denominator == 1:
        return str(number.numerator)
    minus = "-" if number.numerator < 0 else ""
    return rf"{minus}\frac{{{abs(number.numerator)}}}{{{number.denominator}}}"


def steps(expression: Expression) -> list[Expression]:
    """The expression, then the result of one rewriting at a time, down to a number in lowest terms.

    Raises `ZeroDivisionError` where the expression divides by zero.
    """
    chain = [expression]
    while (following := _rewrite(chain[-1])) is not None:
        chain.append(following)
    return chain


def _rewrite(expression: Expression) -> Expression | None:
    """The leftmost step that can be taken, or None for a number in lowest terms."""
    if isinstance(expression, Number):
        return _lowest_terms(expression)
    if (left := _rewrite(expression.left)) is not None:
        return Operation(expression.sign, left, expression.right)
    if (right := _rewrite(expression.right)) is not None:
        return Operation(expression.sign, expression.left, right)
    assert isinstance(expression.left, Number) and isinstance(expression.right, Number)
    return _apply(expression.sign, expression.left, expression.right)


def _lowest_terms(number: Number) -> Number | None:
    divisor = gcd(number.numerator, number.denominator)
    return None if divisor == 1 else Number(number.numerator // divisor, number.denominator // divisor)


def _apply(sign: str, left: Number, right: Number) -> Expression:
    """One step of school arithmetic; a sum of fractions is written over the least common denominator."""
    match sign:
        case "*":
            return Number(left.numerator * right.numerator, left.denominator * right.denominator)
        case "/":
            if right.numerator == 0:
                raise ZeroDivisionError(f"{latex(left)} cannot be divided by 0")
            if left.denominator == right.denominator == 1 and left.numerator % right.numerator == 0:
                return Number(left.numerator // right.numerator)
            turn = 1 if right.numerator > 0 else -1
            return Operation("*", left, Number(turn * right.denominator, turn * right.numerator))
        case _:
            return _add(left, right, 1 if sign == "+" else -1)


def _add(left: Number, right: Number, turn: int) -> Expression:
    if left.denominator == right.denominator:
        return Number(left.numerator + turn * right.numerator, left.denominator)
    common = lcm(left.denominator, right.denominator)
    numerator = left.numerator * (common // left.denominator)
    numerator += turn * right.numerator * (common // right.denominator)
    return Number(numerator, common)
