"""Numeric values of expressions, in bounded time.

Sympy's `evalf` raises its precision until it is sure, which for a tower of exponentials means until memory is gone.
This evaluator works at one fixed precision and gives up on values out of reach. The caller decides what equality to
that precision means.
"""

from collections.abc import Callable, Mapping
from typing import Any

import mpmath
import sympy
from mpmath.libmp import NoConvergence
from sympy import Expr

from grading.series import is_finite

MAX_LOG = 10**7  # of a value: beyond it digits of an argument get lost at the precisions used here
MAX_ANGLE = 10**9


class NotComputable(ValueError):
    """The expression has no finite value here, or none within reach."""


def context(digits: int) -> Any:
    """A private mpmath context, so that nobody else's precision changes apply."""
    own = mpmath.MPContext()
    own.dps = digits
    return own


WORKING = context(60)
CHECKING = context(150)

FUNCTIONS: dict[type, str] = {
    sympy.sin: "sin", sympy.cos: "cos", sympy.tan: "tan", sympy.cot: "cot", sympy.sec: "sec", sympy.csc: "csc",
    sympy.asin: "asin", sympy.acos: "acos", sympy.atan: "atan", sympy.acot: "acot", sympy.asec: "asec",
    sympy.acsc: "acsc", sympy.sinh: "sinh", sympy.cosh: "cosh", sympy.tanh: "tanh", sympy.coth: "coth",
    sympy.log: "log", sympy.exp: "exp", sympy.Abs: "fabs", sympy.floor: "floor", sympy.ceiling: "ceil",
    sympy.factorial: "factorial", sympy.gamma: "gamma", sympy.re: "re", sympy.im: "im", sympy.conjugate: "conj",
    sympy.asinh: "asinh", sympy.acosh: "acosh", sympy.atanh: "atanh", sympy.sech: "sech", sympy.csch: "csch",
    sympy.sign: "sign", sympy.arg: "arg",
}  # fmt: skip


def evaluate(expression: Expr, point: Mapping[Expr, Any], ctx: Any = WORKING) -> Any:
    """The value (mpmath number) of `expression` with its symbols as in `point`.

    Raises `NotComputable` for unknown functions, poles, infinities and values beyond e^(10^7).
    """
    try:
        value = _value(expression, point, ctx)
    except (ZeroDivisionError, OverflowError, NoConvergence, RecursionError, ValueError, TypeError) as fault:
        raise NotComputable(type(fault).__name__) from None
    if not ctx.isfinite(value):
        raise NotComputable("not finite")
    return value


def _value(node: Expr, point: Mapping[Expr, Any], ctx: Any) -> Any:
    if node in point:
        return point[node]
    if node.is_Rational:
        return ctx.mpf(int(node.p)) / int(node.q)
    if node is sympy.pi:
        return +ctx.pi
    if node is sympy.E:
        return +ctx.e
    if node is sympy.I:
        return ctx.mpc(0, 1)
    if node is sympy.GoldenRatio:
        return +ctx.phi
    if node.is_Add:
        return ctx.fsum([_value(term, point, ctx) for term in node.args])
    if node.is_Mul:
        return ctx.fprod([_value(term, point, ctx) for term in node.args])
    if node.is_Pow or isinstance(node, sympy.exp):
        return _power(node, point, ctx)
    if is_finite(node):
        return _series(node, point, ctx)
    name = FUNCTIONS.get(type(node))
    if name is None:
        raise NotComputable("unknown function")
    return _apply(getattr(ctx, name), name, [_value(term, point, ctx) for term in node.args], ctx)


def _series(node: Expr, point: Mapping[Expr, Any], ctx: Any) -> Any:
    body, index, lower, upper = node.args
    terms = [_value(body, {**point, index: ctx.mpf(k)}, ctx) for k in range(int(lower), int(upper) + 1)]
    return ctx.fsum(terms) if str(node.func) == "sum" else ctx.fprod(terms)


def _power(node: Expr, point: Mapping[Expr, Any], ctx: Any) -> Any:
    base, exponent = (_value(part, point, ctx) for part in node.as_base_exp())
    if base != 0 and abs(exponent) * abs(ctx.log(base)) > MAX_LOG:
        raise NotComputable("out of reach")
    return ctx.power(base, exponent)


def _apply(function: Callable[..., Any], name: str, arguments: list[Any], ctx: Any) -> Any:
    if any(abs(argument) > MAX_ANGLE for argument in arguments) and name not in {"log", "fabs", "re", "im", "sign"}:
        raise NotComputable("out of reach")
    return function(*arguments)
