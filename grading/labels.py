"""Names in front of a value: the `x` of `x = 5`, the `f(x)` of `f(x) = x^2`."""

import re
from collections.abc import Sequence

from sympy import Expr

from grading.parse import Parser
from grading.tokens import Kind, Token, join
from grading.unreadable import Unreadable

Tokens = Sequence[Token]

NAMED_FIGURE = re.compile(r"(?:overline|vec|overrightarrow)\{[A-Z]{1,2}\}|\[[A-Z]{3,6}\]|[a-z]\^\{?-1\}?\([a-z]\)")


def is_label(tokens: Tokens) -> bool:
    """Whether a left side only names what follows: `x`, `x_1`, `AB`, `f(x)`, `(x, y)`, `S_1:S_2`, `\\text{Area}`,
    `\\overline{AB}`, `[ABC]` for an area, `f^{-1}(x)` for an inverse."""
    if NAMED_FIGURE.fullmatch(join(tokens)):
        return True
    if any(
        token.kind is Kind.NUMBER and not tokens[max(i - 1, 0)].is_symbol("_", "{") for i, token in enumerate(tokens)
    ):
        return False
    heads = [token for token in tokens if token.kind in {Kind.WORD, Kind.TEXT, Kind.MACRO}]
    if not heads or any(token.is_symbol("+", "-", "*", "/", "^", "!", "|") for token in tokens):
        return False
    if any(token.is_macro("angle", "measuredangle", "triangle") for token in tokens):
        return True
    if len(tokens) == 1:
        token = tokens[0]
        return token.kind is not Kind.WORD or len(token.text) == 1 or token.text.isupper() or len(token.text) > 3
    if any(token.is_symbol(":") for token in tokens):
        return True
    if tokens[0].is_symbol("("):
        return all(token.kind is not Kind.WORD or len(token.text) == 1 for token in tokens)
    if tokens[0].kind is Kind.TEXT:
        return True
    applied = tokens[1].is_symbol("(", "_", "'") and tokens[-1].is_symbol(")", "}", "'")
    return (len(tokens[0].text) == 1 and applied) or (len(tokens) == 3 and tokens[1].is_symbol("_"))


def label_expression(tokens: Tokens) -> Expr | None:
    if NAMED_FIGURE.fullmatch(join(tokens)):
        return None
    try:
        value = Parser(tokens).parse()
    except Unreadable:
        return None
    return value if isinstance(value, Expr) else None
