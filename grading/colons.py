"""Ratios and times of day."""

import re
from collections.abc import Sequence
from itertools import pairwise

from sympy import Expr

from grading.kinds import Colon
from grading.parse import Parser
from grading.tokens import Kind, Token, join
from grading.unreadable import Unreadable

Tokens = Sequence[Token]

CLOCK = re.compile(r"(?:[01]?\d|2[0-4])(?::[0-5]\d){1,2}")
RATIO = re.compile(r":(?!\d\d(?:[.:]|$))")  # two digits behind each colon may be minutes


def read_colon(tokens: Tokens, places: list[int]) -> Colon:
    """Numbers between colons. Two-digit minutes below sixty after an hour make it look like a time of day."""
    half_of_day = ""
    while tokens and tokens[-1].is_symbol("."):
        tokens = tokens[:-1]
    tail = "".join(token.text for token in tokens[places[-1] + 2 :]).lower().replace(".", "").replace(" ", "")
    if tail in {"am", "pm"}:
        half_of_day, tokens = tail, tokens[: places[-1] + 2]
    edges = [-1, *places, len(tokens)]
    parts = [tokens[a + 1 : b] for a, b in pairwise(edges)]
    if not all(parts):
        raise Unreadable("missing operand")
    values = []
    for part in parts:
        value = Parser(part).parse()
        if not isinstance(value, Expr):
            raise Unreadable("no meaning")
        values.append(value)
    spelled = ":".join(join(part) for part in parts)
    by_colons = all(tokens[place].is_symbol(":") for place in places)
    clock = by_colons and CLOCK.fullmatch(spelled) is not None
    ratio = not by_colons or RATIO.search(spelled) is not None
    return Colon(tuple(values), half_of_day, clock or bool(half_of_day), ratio and not half_of_day)


def words_between(tokens: Tokens, word: str) -> list[int]:
    """The places of `word` between two operands, as in `3 \\text{ to } 5`; none where one of them is missing."""
    places = [
        index
        for index, token in enumerate(tokens)
        if token.kind in {Kind.TEXT, Kind.WORD} and token.text.strip() == word and 0 < index < len(tokens) - 1
    ]
    return places if len(places) == 1 else []
