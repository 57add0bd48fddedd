"""Reads a cleaned answer as one of the `kinds`."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import sympy
from sympy import Expr, Integer

from grading.colons import read_colon, words_between
from grading.congruence import read_congruence
from grading.kinds import (
    Answer,
    Collection,
    Group,
    Labelled,
    MatrixAnswer,
    Quantity,
    Relation,
    SetOperation,
    Text,
)
from grading.labels import is_label, label_expression
from grading.normalise import TEXT_MACRO, clean, words
from grading.parse import Parser
from grading.tokens import Kind, Token, join, tokenize
from grading.unreadable import Unreadable
from grading.values import read_value, signs
from grading.vocabulary import NAMES, NUMBER_WORDS

MAX_ITEMS = 64
MAX_NESTING = 8

Tokens = Sequence[Token]

RELATIONS = {
    "=": "=", "<": "<", ">": ">", "le": "<=", "leq": "<=", "leqslant": "<=", "ge": ">=", "geq": ">=", "geqslant": ">=",
    "ne": "!=", "neq": "!=", "equiv": "=",
}  # fmt: skip
APPROXIMATIONS = ("approx", "approxeq", "simeq", "sim", "doteq")
SET_OPERATORS = {"cup": "cup", "cap": "cap", "setminus": "setminus", "backslash": "setminus", "bigcup": "cup"}
EMPTY_SETS = {"no solution", "no solutions", "no real solution", "no real solutions", "empty set"}
ALL_REALS = {"all real numbers", "all reals", "real numbers", "all real number"}
OPENING = ("(", "[", "{", "\\{")
CLOSING = (")", "]", "}", "\\}")
PADDED = re.compile(r"0\d+")
REALS = Group("()", (Quantity(-sympy.oo), Quantity(sympy.oo)))
EMPTY = Collection((), braces=True)
POSITIVE = Group("()", (Quantity(Integer(0)), Quantity(sympy.oo)))
NUMBER_SETS = {"mathbb{R}": REALS, "mathbb{R}^+": POSITIVE, "mathbb{R}^{+}": POSITIVE, "mathbb{R}_+": POSITIVE}


@lru_cache(maxsize=4096)
def read_answer(text: str) -> Answer:
    """The answer that `text` writes.

    Raises `Unreadable` where it is no mathematics that this package knows. A gold answer is compared with many
    completions and read once.
    """
    cleaned = clean(text)
    if not cleaned:
        raise Unreadable("empty")
    prose = read_prose(cleaned)
    return prose if prose is not None else read_list(tokenize(cleaned), 0)


def read_prose(cleaned: str) -> Answer | None:
    """An answer in words, or None. Upright letters are words: `\\text{(E)}` is a choice and not the number e."""
    plain = words(cleaned)
    if plain in EMPTY_SETS:
        return EMPTY
    if plain in ALL_REALS:
        return REALS
    if plain in NUMBER_WORDS:
        return Quantity(Integer(NUMBER_WORDS[plain]))
    upright = re.fullmatch(
        r"\(?\s*\\(?:text|mathrm|mbox|textbf|mathbf|textrm|mathit|textit)[a-z]*\s*\{.*\}\s*\)?", cleaned
    )
    if upright and re.fullmatch(r"[a-z](?:(?:[,;] ?| )(?:and )?[a-z]\b)*", plain) and plain not in {"e", "i"}:
        letters = re.sub(r"\band\b|[,; ]", "", plain)
        return Text(plain) if len(letters) == 1 else Collection(tuple(Text(each) for each in sorted(letters)))
    if upright and re.fullmatch(r"[a-z]", plain):
        return Text(plain)
    letters_only = re.fullmatch(
        r"[^\W\d_]{2,}(?:[ '-][^\W\d_]+)*", re.sub(r"[{}]", "", TEXT_MACRO.sub("", cleaned)).strip()
    )
    if letters_only and plain.split()[0] not in NAMES:
        return read_words(plain, cleaned)
    return None


def read_words(plain: str, cleaned: str) -> Answer | None:
    """Letters only: text, unless they are variables (`ab`), a named constant or a joined list (`A and B`)."""
    upright = "\\" in cleaned
    variables = not upright and (len(plain) < 3 or plain in {"infinity", "inf", "exp"})
    if variables or re.search(r"\b(?:and|or)\b", plain):
        return None
    return Text(plain)


def read_list(tokens: Tokens, nesting: int) -> Answer:
    """Items between commas, semicolons and conjunctions; a single item is itself."""
    if nesting > MAX_NESTING:
        raise Unreadable("nested too deeply")
    iso = read_reversed_interval(tokens, nesting)
    if iso is not None:
        return iso
    if len(tokens) == 1 and tokens[0].kind is Kind.TEXT and re.search(r"\d", tokens[0].text):
        return read_list(tokenize(clean(tokens[0].text)), nesting + 1)
    congruence = read_congruence(tokens)
    if congruence is not None:
        return congruence
    pieces, joins = split_items(tokens)
    if len(pieces) == 1:
        return read_item(pieces[0], nesting)
    if any(len(piece) == 1 and PADDED.fullmatch(piece[0].text) for piece in pieces):
        raise Unreadable("a comma that may separate digits or values")
    label, pieces[0] = take_list_label(pieces)
    items = flatten(read_item(piece, nesting) for piece in pieces)
    joined = "or" if "or" in joins else "and" if joins == {"and"} else ","
    collection = Collection(items, joined=joined)
    return Labelled(label, collection) if label else collection


def split_items(tokens: Tokens) -> tuple[list[Tokens], set[str]]:
    pieces: list[Tokens] = []
    joins: set[str] = set()
    start = depth = 0
    for index, token in enumerate(tokens):
        depth += depth_change(token)
        conjunction = conjunction_of(token)
        if depth == 0 and (token.is_symbol(",", ";") or conjunction):
            piece = tokens[start:index]
            joins.add(conjunction or ",")
            if piece:
                pieces.append(piece)
            elif not conjunction:
                raise Unreadable("missing item")
            start = index + 1
    pieces.append(tokens[start:])
    if not all(pieces):
        raise Unreadable("missing item")
    if len(pieces) > MAX_ITEMS:
        raise Unreadable("too long")
    return pieces, joins


def conjunction_of(token: Token) -> str:
    if token.kind in {Kind.TEXT, Kind.WORD} and token.text.lower().strip(" ,") in {"and", "or"}:
        return token.text.lower().strip(" ,")
    return {"lor": "or", "land": "and", "wedge": "and"}.get(token.text, "") if token.kind is Kind.MACRO else ""


def take_list_label(pieces: list[Tokens]) -> tuple[str, Tokens]:
    """`n = 2, 3, 4` labels the whole list, so the label goes to it; `x = 1, y = 2` labels each item."""
    marks = [any(token.is_symbol("=") for token in piece) for piece in pieces]
    first = pieces[0]
    if marks == [True] + [False] * (len(pieces) - 1) and len(first) > 2 and first[1].is_symbol("="):
        return first[0].text, first[2:]
    return "", first


def depth_change(token: Token) -> int:
    if token.is_symbol(*OPENING) or token.is_macro("begin", "lfloor", "lceil"):
        return 1
    return -1 if token.is_symbol(*CLOSING) or token.is_macro("end", "rfloor", "rceil") else 0


def find_top_level(tokens: Tokens, macros: Sequence[str], symbols: Sequence[str] = ()) -> list[int]:
    """Indices outside all brackets where one of the macros or symbols stands."""
    found, depth = [], 0
    for index, token in enumerate(tokens):
        depth += depth_change(token)
        if depth == 0 and (token.is_macro(*macros) or token.is_symbol(*symbols)):
            found.append(index)
    return found


def flatten(items: object) -> tuple[Answer, ...]:
    """`\\{1 \\pm \\sqrt 5, -2\\}` holds three values."""
    flat: list[Answer] = []
    for item in items:  # type: ignore[attr-defined]
        flat.extend(item.items if isinstance(item, Collection) and not item.braces else [item])
    return tuple(flat)


def read_item(tokens: Tokens, nesting: int) -> Answer:
    if len(tokens) > 1 and tokens[0].is_symbol("="):  # the end of a calculation
        tokens = tokens[1:]
    congruence = read_congruence(tokens)
    if congruence is not None:
        return congruence
    approximations = find_top_level(tokens, APPROXIMATIONS)
    if approximations:  # `x = 1/3 \approx 0.33` states the exact value first
        tokens = tokens[: approximations[0]] or tokens[1:]
    membership = find_top_level(tokens, ("in",))
    if len(membership) == 1 and 0 < membership[0] < 4:
        return Labelled(join(tokens[: membership[0]]), read_item(tokens[membership[0] + 1 :], nesting))
    relations = find_top_level(tokens, tuple(RELATIONS), ("=", "<", ">"))
    if relations:
        return read_relation(tokens, relations, nesting)
    if len(tokens) > 2 and re.fullmatch("[ABD-Z]", tokens[0].text) and tokens[1].is_symbol("("):
        point = read_group(tokens[1:], nesting)  # `A(3, 4)`
        if isinstance(point, Group):
            return Labelled(tokens[0].text, point)
    operators = [*find_top_level(tokens, tuple(SET_OPERATORS)), *removed_sets(tokens)]
    if operators:
        edges = [-1, *sorted(operators), len(tokens)]
        parts = [tokens[a + 1 : b] for a, b in pairwise(edges)]
        return SetOperation(
            tuple(read_item(part, nesting + 1) for part in parts),
            tuple(SET_OPERATORS.get(tokens[index].text, "setminus") for index in sorted(operators)),
        )
    colons = find_top_level(tokens, (), (":",)) or words_between(tokens, "to")
    if colons:
        return read_colon(tokens, colons)
    return read_group(tokens, nesting) or read_value(tokens)


def removed_sets(tokens: Tokens) -> list[int]:
    """Where a minus sign takes a set away: `\\mathbb{R} - \\{3\\}`."""
    places = find_top_level(tokens, (), ("-",))
    return [index for index in places if 0 < index < len(tokens) - 1 and tokens[index + 1].is_symbol("\\{")]


def read_relation(tokens: Tokens, places: list[int], nesting: int) -> Answer:
    edges = [-1, *places, len(tokens)]
    sides = [tokens[a + 1 : b] for a, b in pairwise(edges)]
    operators = tuple(RELATIONS[tokens[index].text] for index in places)
    if not all(sides):
        raise Unreadable("missing operand")
    if operators[0] == "=" and set(operators) == {"="} and is_label(sides[0]):
        values = [read_item(side, nesting) for side in sides[1:]]
        return Labelled(join(sides[0]), chained_value(values), label_expression(sides[0]))
    if operators == ("=",) and is_label(sides[1]) and not is_label(sides[0]):
        return Labelled(join(sides[1]), read_item(sides[0], nesting), label_expression(sides[1]))
    expressions: list[Expr] = []
    for side in sides:
        value = Parser(side).parse()
        if not isinstance(value, Expr) or signs(side):
            raise Unreadable("no meaning")
        expressions.append(value)
    if set(operators) == {"="} and all(value == expressions[0] and value.is_number for value in expressions):
        return Quantity(expressions[0])  # `6 \cdot 7 = 42` is a calculation, not an equation
    return Relation(tuple(expressions), operators)


def chained_value(values: list[Answer]) -> Answer:
    """`x = 2 \\cdot 3 = 6` has one value only if its parts are the same number."""
    if len(values) > 1:
        first = values[0]
        same = all(isinstance(v, Quantity) and isinstance(first, Quantity) and v.value == first.value for v in values)
        if not same:
            raise Unreadable("several values")
    return values[-1]


def read_group(tokens: Tokens, nesting: int) -> Answer | None:
    """A bracket that holds the whole item: a tuple, an interval, a set. None where it is an expression instead."""
    if len(tokens) == 1 and tokens[0].is_macro("emptyset", "varnothing"):
        return EMPTY
    if join(tokens) in NUMBER_SETS:
        return NUMBER_SETS[join(tokens)]
    if len(tokens) < 2 or not tokens[0].is_symbol("(", "[", "\\{") or closing_index(tokens) != len(tokens) - 1:
        return None
    inner = tokens[1:-1]
    braces = tokens[0].text == "\\{"
    if not inner:
        return EMPTY if braces else None
    if braces:
        condition = set_builder(inner)
        return read_list(condition, nesting + 1) if condition else braced(read_list(inner, nesting + 1))
    separators = find_top_level(inner, (), (",", ";"))
    if not separators:
        if any(depth_change(token) == 1 for token in inner[:1]):
            nested = read_group(inner, nesting + 1)
            if isinstance(nested, Group | MatrixAnswer | Collection):
                return nested
        return None
    pieces, _ = split_items(inner)
    items = tuple(read_item(piece, nesting + 1) for piece in pieces)
    brackets = tokens[0].text + tokens[-1].text
    return nested_rows(brackets, items) or Group(brackets, items)


def closing_index(tokens: Tokens) -> int:
    depth = 0
    for index, token in enumerate(tokens):
        depth += depth_change(token)
        if depth == 0:
            return index
    return -1


def braced(inner: Answer) -> Answer:
    items = inner.items if isinstance(inner, Collection) and not inner.braces else (inner,)
    return Collection(items, braces=True)


def set_builder(tokens: Tokens) -> Tokens:
    """The condition of `\\{x : x > 2\\}`; empty where it is no set builder."""
    places = find_top_level(tokens, ("mid",), (":", "|"))
    return tokens[places[0] + 1 :] if len(places) == 1 and 0 < places[0] <= 4 else []


def nested_rows(brackets: str, items: tuple[Answer, ...]) -> MatrixAnswer | None:
    """`[[1, 2], [3, 4]]` is a matrix in the spelling of programming languages."""
    if brackets != "[]" or not all(isinstance(item, Group) and item.brackets == "[]" for item in items):
        return None
    rows = []
    for item in items:
        assert isinstance(item, Group)
        if not all(isinstance(entry, Quantity) for entry in item.items):
            return None
        rows.append([entry.value for entry in item.items if isinstance(entry, Quantity)])
    return MatrixAnswer(sympy.Matrix(rows)) if len({len(row) for row in rows}) == 1 else None


def read_reversed_interval(tokens: Tokens, nesting: int) -> Answer | None:
    """`]2, \\infty[`, the ISO notation of an open end."""
    if len(tokens) < 4 or not (tokens[0].is_symbol("]") or tokens[-1].is_symbol("[")):
        return None
    ends = {"]": "(", "[": "[", "(": "("}.get(tokens[0].text), {"[": ")", "]": "]", ")": ")"}.get(tokens[-1].text)
    pieces, _ = split_items(tokens[1:-1])
    if None in ends or len(pieces) != 2:
        return None
    return Group(f"{ends[0]}{ends[1]}", tuple(read_item(piece, nesting + 1) for piece in pieces))
