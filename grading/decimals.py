"""Decimals that never end."""

from sympy import Expr, Rational

from grading import bounds
from grading.unreadable import Unreadable


def repeating(shown: str, block: str) -> Expr:
    """The value of the decimal `shown` followed by `block` over and over."""
    places = len(shown.partition(".")[2])
    return bounds.number(shown) + Rational(int(block), (10 ** len(block) - 1) * 10**places)


def endless_block(decimals: str) -> str:
    """The digits that an ellipsis repeats: a block of up to six that ends `decimals` at least twice, three times if it
    is a single digit. Raises `Unreadable` for `3.14...`, which repeats nothing, so that its value is not given."""
    for length in range(1, 7):
        block = decimals[-length:]
        times = 3 if length == 1 else 2
        if len(decimals) >= times * length and decimals.endswith(block * times):
            return block
    raise Unreadable("unfinished decimal")
