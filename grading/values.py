"""Reads one value: a number or expression with its unit, a numeral, a matrix, words."""

import re
from collections.abc import Sequence

import sympy
from sympy import Expr

from grading import bounds
from grading.decimals import repeating
from grading.kinds import Answer, Collection, MatrixAnswer, Numeral, Quantity, Text
from grading.normalise import words
from grading.parse import Parser
from grading.tokens import Kind, Token, join, tokenize
from grading.units import parse_unit, split_unit
from grading.unreadable import Unreadable
from grading.vocabulary import DEGREE, NUMBER_WORDS

Tokens = Sequence[Token]


def signs(tokens: Tokens) -> bool:
    return any(token.is_macro("pm", "mp") for token in tokens)


def read_value(tokens: Tokens) -> Answer:
    """A number or expression with its unit or percent sign, a numeral, a matrix, or both branches of `\\pm`."""
    if not tokens:
        raise Unreadable("missing operand")
    while len(tokens) > 1 and tokens[-1].kind is Kind.TEXT and not tokens[-1].text.strip(" ."):
        tokens = tokens[:-1]
    if len(tokens) == 1 and tokens[0].kind is Kind.TEXT:
        return read_text(tokens[0].text)
    tokens, percent = split_percent(tokens)
    tokens = without_ordinal(tokens)
    numeral = read_numeral(tokens)
    if numeral is not None:
        return numeral
    tokens, unit, scale = split_unit(tokens)
    if signs(tokens):
        branches = tuple(read_branch(tokens, branch) for branch in (1, -1))
        return Collection(tuple(Quantity(value, unit, percent) for value in branches))
    value = read_repeating(tokens)
    if value is None:
        value = Parser(tokens).parse()
    if not isinstance(value, Expr):
        return MatrixAnswer(value)
    degrees = value.coeff(DEGREE) if value.has(DEGREE) else None
    if degrees is not None:
        if value != degrees * DEGREE or (unit is not None and unit.dimension):
            unit = parse_unit("degree") if len(tokens) and sympy.expand(value - degrees * DEGREE) == 0 else None
            if unit is None:
                raise Unreadable("no meaning")
        value, unit = degrees, parse_unit("degree")
    decimals = len(tokens[-1].text.partition(".")[2]) if tokens[-1].kind is Kind.NUMBER and is_literal(tokens) else 0
    return Quantity(value * scale, unit, percent, decimals)


def is_literal(tokens: Tokens) -> bool:
    return len(tokens) == 1 or (len(tokens) == 2 and tokens[0].is_symbol("-", "+"))


def read_branch(tokens: Tokens, branch: int) -> Expr:
    value = Parser(tokens, branch).parse()
    if not isinstance(value, Expr):
        raise Unreadable("no meaning")
    return value


def read_text(text: str) -> Answer:
    """The content of a text macro that is a whole item: a number, or words."""
    if any(character.isdigit() for character in text):
        return read_value(tokenize(text))
    return Text(words(text))


def split_percent(tokens: Tokens) -> tuple[Tokens, bool]:
    last = tokens[-1]
    is_word = last.kind in {Kind.TEXT, Kind.WORD} and last.text.lower() in {"percent", "pct", "per cent", "%"}
    if len(tokens) > 1 and (last.is_symbol("%") or is_word):
        return tokens[:-1], True
    return tokens, False


def without_ordinal(tokens: Tokens) -> Tokens:
    """`13th`, `13\\mathrm{th}` and `13^{th}` are 13."""
    shape = join(tokens)
    match = re.fullmatch(r"\d+\^?\{?(?:st|nd|rd|th)\}?", shape)
    return tokens[:1] if match and tokens[0].kind is Kind.NUMBER else tokens


def read_numeral(tokens: Tokens) -> Numeral | None:
    """Digits with a subscript base, `52_8` or `A3_{16}`. Base ten is the plain number."""
    match = re.fullmatch(
        r"\(?([0-9A-Z]+)\)?_\{?\(?(\d{1,2}|two|three|four|five|six|seven|eight|nine|ten)\)?\}?", join(tokens)
    )
    if match is None or (match.group(1)[0].isalpha() and int_base(match.group(2)) <= 10):
        return None
    base = int_base(match.group(2))
    digits = match.group(1).lstrip("0") or "0"
    if not 2 <= base <= 36 or len(digits) > 200 or any(int(digit, 36) >= base for digit in digits):
        raise Unreadable("digits beyond the base")
    return Numeral(digits, base)


def int_base(text: str) -> int:
    return int(text) if text.isdigit() else NUMBER_WORDS[text]


def read_repeating(tokens: Tokens) -> Expr | None:
    """`0.\\overline{3}` and `0.1\\bar{6}`. The point may end up apart from its digits, so the spelling is matched."""
    shape = "".join(("\\" if token.kind is Kind.MACRO else "") + token.text for token in tokens)
    match = re.fullmatch(r"(-?)(\d*)\.(\d*)\\(?:overline|bar|dot)\{?(\d+)\}?", shape)
    if match is None or len(shape) > bounds.MAX_DIGITS:
        return None
    sign, whole, fixed, block = match.groups()
    value = repeating(f"{whole or 0}.{fixed}", block)
    return -value if sign else value
