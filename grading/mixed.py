"""Mixed numbers: `137 \\frac{1}{2}` and `1 1/4`."""

from sympy import Expr, Rational

from grading import bounds
from grading.cursor import Cursor
from grading.tokens import Kind


def parse_mixed_number(cursor: Cursor) -> Expr | None:
    """The sum of a whole number and the proper fraction behind it, which is not their product.

    None, with the cursor where it was, if anything else stands there: `2\\frac{3}{2}` is a product.
    """
    whole = cursor.peek()
    if whole is None or whole.kind is not Kind.NUMBER or not whole.text.isdigit():
        return None
    start = cursor.position
    cursor.position += 1
    after = cursor.peek()
    parts: tuple[str, str] | None = None
    if after is not None and after.is_macro("frac"):
        cursor.position += 1
        parts = integer_arguments(cursor)
    elif after is not None and after.kind is Kind.NUMBER and after.gap:
        slash, below = cursor.peek(1), cursor.peek(2)
        if slash is not None and slash.is_symbol("/") and below is not None and below.kind is Kind.NUMBER:
            cursor.position += 3
            parts = after.text, below.text
    if parts and parts[0].isdigit() and parts[1].isdigit() and int(parts[1][:20]) > 0:
        fraction = bounds.number(parts[0]) / bounds.number(parts[1])
        if isinstance(fraction, Rational) and 0 < fraction < 1:
            return bounds.number(whole.text) + fraction
    cursor.position = start
    return None


def integer_arguments(cursor: Cursor) -> tuple[str, str] | None:
    """The digits of a fraction's numerator and denominator: `{1}{2}`, `1{72}`, `12` (a half) or `{1}2`."""
    digits: list[str] = []
    while len(digits) < 2:
        if cursor.take_symbol("{"):
            token = cursor.peek()
            closing = cursor.peek(1)
            if token is None or token.kind is not Kind.NUMBER or closing is None or not closing.is_symbol("}"):
                return None
            digits.append(token.text)
            cursor.position += 2
            continue
        token = cursor.peek()
        if token is None or token.kind is not Kind.NUMBER or not token.text.isdigit():
            return None
        cursor.position += 1
        digits.append(token.text[0])
        if len(token.text) > 1:
            cursor.push_back(Kind.NUMBER, token.text[1:])
    return digits[0], digits[1]
