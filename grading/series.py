"""Sums, products and integrals that an answer leaves unevaluated.

They are kept as they stand: an integral or a sum is equal to another one with the same limits and the same body,
whatever its variable is called. A sum or product of numbers between two integers also has a value, which `numeric`
adds up term by term; nothing is ever integrated or summed in closed form, because that may never end.
"""

from collections.abc import Sequence
from typing import Protocol

import sympy
from sympy import Expr, Symbol
from sympy.core.function import AppliedUndef

from grading.tokens import Kind, Token
from grading.unreadable import Unreadable

OPERATORS = {"sum", "prod", "int"}
MAX_TERMS = 300


class Terms(Protocol):
    """What of the parser is used here."""

    tokens: Sequence[Token]
    position: int
    bound: dict[str, Expr]

    def peek(self, offset: int = 0) -> Token | None: ...
    def take_symbol(self, *texts: str) -> bool: ...
    def expect(self, text: str) -> None: ...
    def argument(self, single_digit: bool = False) -> Expr: ...
    def sum(self) -> Expr: ...
    def product(self) -> Expr: ...
    def nested(self, tokens: Sequence[Token]) -> Expr: ...


def parse_series(parser: Terms, operator: str) -> Expr:
    """The sum, product or integral whose macro has just been read."""
    return parse_integral(parser) if operator == "int" else parse_sum(parser, operator)


def parse_sum(parser: Terms, operator: str) -> Expr:
    """`\\sum_{k=1}^{n} k^2 + 1` sums only the squares."""
    parser.expect("_")
    parser.expect("{")
    index = parser.peek()
    if index is None or index.kind is not Kind.WORD or len(index.text) != 1:
        raise Unreadable("missing operand")
    parser.position += 1
    parser.expect("=")
    lower = parser.sum()
    parser.expect("}")
    parser.expect("^")
    upper = parser.argument()
    stand_in = placeholder(parser)
    with_index = bind(parser, index.text, stand_in)
    body = parser.product()
    parser.bound = with_index
    return sympy.Function(operator)(body, stand_in, lower, upper)


def parse_integral(parser: Terms) -> Expr:
    """`\\int_a^b f(x)\\,dx` up to its differential, with or without limits."""
    limits: list[Expr] = []
    if parser.take_symbol("_"):
        limits.append(parser.argument(single_digit=True))
        parser.expect("^")
        limits.append(parser.argument(single_digit=True))
    inside, variable, end = differential(parser)
    stand_in = placeholder(parser)
    outer = bind(parser, variable, stand_in) if limits else dict(parser.bound)
    body = parser.nested(inside) if inside else sympy.Integer(1)
    parser.bound = outer
    parser.position = end
    return sympy.Function("int")(body, stand_in if limits else Symbol(variable), *limits)


def differential(parser: Terms) -> tuple[list[Token], str, int]:
    """The tokens before the `dx` that belongs to the integral ahead, its variable, and the position behind it."""
    depth = 0
    for place in range(parser.position, len(parser.tokens)):
        token = parser.tokens[place]
        depth += 1 if token.is_macro("int") else 0
        if token.kind is not Kind.WORD:
            continue
        ends_here = len(token.text) > 1 and token.text[-2] == "d"
        following = parser.tokens[place + 1] if place + 1 < len(parser.tokens) else None
        apart = token.text == "d" and following is not None and following.kind is Kind.WORD and len(following.text) == 1
        if not (ends_here or apart):
            continue
        if depth:
            depth -= 1
            continue
        inside = list(parser.tokens[parser.position : place])
        if ends_here and len(token.text) > 2:
            inside.append(Token(Kind.WORD, token.text[:-2], token.gap))
        if apart:
            assert following is not None
            return inside, following.text, place + 2
        return inside, token.text[-1], place + 1
    raise Unreadable("integral without a differential")


def placeholder(parser: Terms) -> Symbol:
    """The name of a bound variable, the same at the same nesting, so that its own name does not matter."""
    return Symbol(f"•{len(parser.bound)}")


def bind(parser: Terms, name: str, value: Expr) -> dict[str, Expr]:
    """Lets `name` stand for `value`, and returns the bindings before."""
    before = parser.bound
    parser.bound = before | {name: value}
    return before


def is_series(call: Expr) -> bool:
    return isinstance(call, AppliedUndef) and str(call.func) in OPERATORS


def has_series(expression: Expr) -> bool:
    """Whether an expression holds a sum, product or integral that is not worked out."""
    return any(is_series(call) for call in expression.atoms(AppliedUndef))


def is_finite(call: Expr) -> bool:
    """Whether a sum or product has few enough terms, none of them a series itself, to be added up."""
    if not is_series(call) or len(call.args) != 4 or str(call.func) == "int":
        return False
    body, _, lower, upper = call.args
    short = lower.is_Integer and upper.is_Integer and 0 <= int(upper) - int(lower) < MAX_TERMS
    return bool(short) and not body.has(AppliedUndef)
