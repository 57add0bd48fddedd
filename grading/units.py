"""Units of measurement written behind (or, for money, before) a number.

A unit may be left out of an answer. Where both sides carry one, the amounts must agree after conversion: 1890 cents is
\\$18.90, and 5.4 dollars is not 5.4 cents.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from grading.tokens import Kind, Token
from grading.vocabulary import NUMBER_WORDS


@dataclass(frozen=True, slots=True)
class Unit:
    """`dimension` lists (quantity, power) pairs; `factor` converts to the quantity's first unit in `KNOWN`."""

    dimension: tuple[tuple[str, int], ...]
    factor: Fraction = Fraction(1)


KNOWN: dict[str, dict[str, Fraction | int]] = {
    "metric length": {"m": 1, "meter": 1, "metre": 1, "cm": Fraction(1, 100), "centimeter": Fraction(1, 100),
                      "centimetre": Fraction(1, 100), "mm": Fraction(1, 1000), "millimeter": Fraction(1, 1000),
                      "km": 1000, "kilometer": 1000, "kilometre": 1000},
    "length": {"inch": 1, "in": 1, "foot": 12, "feet": 12, "ft": 12, "yard": 36, "yd": 36, "mile": 63360, "mi": 63360},
    "time": {"second": 1, "sec": 1, "s": 1, "minute": 60, "min": 60, "hour": 3600, "hr": 3600, "h": 3600,
             "day": 86400, "week": 604800},
    "month": {"month": 1, "year": 12, "yr": 12},
    "metric mass": {"g": 1, "gram": 1, "kg": 1000, "kilogram": 1000, "mg": Fraction(1, 1000)},
    "mass": {"ounce": 1, "oz": 1, "pound": 16, "lb": 16},
    "volume": {"liter": 1, "litre": 1, "l": 1, "ml": Fraction(1, 1000), "milliliter": Fraction(1, 1000)},
    "money": {"dollar": 1, "usd": 1, "buck": 1, "cent": Fraction(1, 100)},
    "euro": {"euro": 1, "eur": 1},
    "sterling": {"gbp": 1},
    "angle": {"degree": 1, "deg": 1},
}  # fmt: skip
BASE_UNITS = {name: (quantity, Fraction(size)) for quantity, sizes in KNOWN.items() for name, size in sizes.items()}
SPEEDS = {"mph": "mile per hour", "kph": "km per hour", "kmh": "km per hour", "rpm": "revolution per minute"}
GENERIC = {"unit", "number", "value"}
CURRENCY = {"$": "dollar", "€": "euro", "£": "gbp"}
CURRENCY_CODES = ("USD", "EUR", "GBP")
SCALES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12}

# Words that change what a number means, so that a phrase with one of them is no unit.
QUALIFIERS = (
    "or and so not to if when where for about around approximately roughly nearly almost exactly over under more less "
    "than at least most between minus plus times divided by is are was were as from with without no none maybe perhaps "
    "half third quarter quarters thirds halves double twice percent percentage pct mod modulo base th st nd rd am pm "
    "a.m p.m true false yes but except either neither both possibly any all each infinity only greater equal "
    "below above negative opposite inverse reciprocal factorial fewer lower higher incorrect wrong "
    "fourth fourths fifth fifths sixth sixths seventh sevenths eighth eighths ninth ninths tenth tenths hundredth "
    "hundredths thousandth thousandths "
    "sin cos tan cot sec csc log ln exp sqrt pi arcsin arccos arctan"
)
NOT_A_UNIT = set(QUALIFIERS.split()) | set(NUMBER_WORDS)
MAX_WORDS = 5


def parse_unit(phrase: str) -> Unit | None:
    """The unit that a phrase such as `square inches`, `cm^2` or `miles per hour` names.

    None where the phrase is no unit. An unknown noun (`pieces`) is a unit of its own. A generic word (`units`) gives
    a unit without dimension, which agrees with any other.
    """
    phrase = re.sub(r"\s*\^\s*\{?\s*(-?\s*\d)(?:\s*\})?", r"^\1", phrase.lower().strip(" .,()"))
    phrase = SPEEDS.get(phrase, phrase).replace("/", " per ").replace(".", " ").replace("-", " ")
    names = phrase.split()
    if not names or len(names) > MAX_WORDS or any(name in NOT_A_UNIT for name in names):
        return None
    powers: dict[str, int] = {}
    factor = Fraction(1)
    sign, pending, nouns = 1, 1, 0
    for name in names:
        if name in {"per", "a", "an", "of", "the"}:
            sign = -1 if name == "per" else sign
            continue
        if name in {"square", "sq", "cubic", "cu"}:
            pending = 2 if name.startswith("sq") else 3
            continue
        if name in {"squared", "cubed"}:
            return parse_unit(("square " if name == "squared" else "cubic ") + phrase.replace(name, ""))
        match = re.fullmatch(r"([a-z]+)(?:\^(-?\d))?", name)
        if match is None:
            return None
        nouns += 1
        exponent = sign * int(match.group(2) or pending)
        quantity, size = BASE_UNITS.get(singular(match.group(1)), (singular(match.group(1)), Fraction(1)))
        if quantity not in GENERIC:
            powers[quantity] = powers.get(quantity, 0) + exponent
            factor *= size**exponent
        pending = 1
    return Unit(tuple(sorted(powers.items())), factor) if nouns else None


def singular(noun: str) -> str:
    if noun in BASE_UNITS or len(noun) < 3:
        return noun
    if noun.endswith(("ches", "xes", "sses", "shes")):
        return noun[:-2]
    return noun[:-1] if noun.endswith("s") and not noun.endswith("ss") else noun


def split_unit(tokens: Sequence[Token]) -> tuple[Sequence[Token], Unit | None, int]:
    """The tokens without a currency sign in front or behind or a unit behind, the unit, and a scale word's factor."""
    if len(tokens) > 1 and tokens[0].is_symbol(*CURRENCY):
        rest, _, scale = split_unit(tokens[1:])
        return rest, parse_unit(CURRENCY[tokens[0].text]), scale
    if len(tokens) > 2 and tokens[0].is_symbol("-") and tokens[1].is_symbol(*CURRENCY):
        return [tokens[0], *tokens[2:]], parse_unit(CURRENCY[tokens[1].text]), 1
    if len(tokens) > 1 and tokens[0].kind is Kind.WORD and tokens[0].text in CURRENCY_CODES:
        return tokens[1:], parse_unit(tokens[0].text), 1
    if len(tokens) > 1 and tokens[-1].is_symbol(*CURRENCY):
        return tokens[:-1], parse_unit(CURRENCY[tokens[-1].text]), 1
    start = unit_start(tokens)
    if not 0 < start < len(tokens):
        return tokens, None, 1
    phrase = " ".join(token.text for token in tokens[start:])
    scale = 1
    first, _, others = phrase.lower().partition(" ")
    if first in SCALES:
        scale, phrase = SCALES[first], others
    if scale > 1 and not phrase:
        return tokens[:start], None, scale
    unit = parse_unit(phrase)
    if unit is None or not is_plausible(tokens, start, phrase):
        return tokens, None, 1
    return tokens[:start], unit, scale


def unit_start(tokens: Sequence[Token]) -> int:
    """Where the run of unit words at the end begins; the number of tokens where there is none."""
    start = len(tokens)
    for index in range(len(tokens) - 1, -1, -1):
        token = tokens[index]
        if token.kind is Kind.TEXT or (token.kind is Kind.WORD and (len(token.text) > 1 or index > 0)):
            start = index
        elif token.kind is Kind.NUMBER and token.text in {"2", "3"} and tokens[index - 1].is_symbol("^", "{", "-"):
            continue
        elif not token.is_symbol("^", "{", "}", "/", ".", "-"):
            break
    return start


def is_plausible(tokens: Sequence[Token], start: int, phrase: str) -> bool:
    """Whether the phrase is a unit rather than a product of variables.

    Words in a text macro are. Plain letters are where a number stands before them and they spell a known unit or,
    after a blank, words of at least four letters: `12 apples`, but not `12 abc`.
    """
    plain = [token for token in tokens[start:] if token.kind is Kind.WORD]
    if any(token.kind is Kind.WORD and len(token.text) > 3 for token in tokens[:start]) and plain:
        return False
    if tokens[start].kind is Kind.TEXT:
        return True
    before = tokens[start - 1]
    if before.kind is not Kind.NUMBER and not before.is_symbol("}", ")") and not before.is_macro("pi"):
        return False
    first = singular(tokens[start].text.lower())
    known = first in BASE_UNITS or first in SPEEDS or first in GENERIC or first in {"sq", "square", "cubic", "cu"}
    if known:
        return len(tokens[start].text) > 2 or (len(tokens[start].text) == 2 and tokens[start].gap)
    return tokens[start].gap and all(len(token.text) >= 4 for token in plain[:1]) and len(plain) <= 3
