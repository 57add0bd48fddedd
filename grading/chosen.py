"""Counting symbols other than `\\binom`: `C_n^k`, `{}_nC_k`, `^nC_k`, `C(n, k)`, and `P` or `A` where order counts.

`C_n^k` puts the number of things below, as books outside the United States do. A letter with a subscript and an
exponent may also be a power of a variable, so ordered choices are read only of two numbers, and nothing is read where
the lower number is the smaller one.
"""

from typing import Protocol

from sympy import Expr

from grading import bounds
from grading.tokens import Kind, Token
from grading.unreadable import Unreadable

UNORDERED = "C"
ORDERED = ("P", "A")


class Arguments(Protocol):
    """What of the parser is used here."""

    position: int

    def peek(self, offset: int = 0) -> Token | None: ...
    def take_symbol(self, *texts: str) -> bool: ...
    def expect(self, text: str) -> None: ...
    def argument(self, single_digit: bool = False) -> Expr: ...
    def sum(self) -> Expr: ...


def parse_chosen(parser: Arguments, letter: str) -> Expr | None:
    """The number of choices that `letter`, which has just been read, stands for; None where it is a variable."""
    following = parser.peek()
    if following is None or following.gap or letter not in (UNORDERED, *ORDERED):
        return None
    if following.is_symbol("_") and scripts_count(parser, letter):
        parser.expect("_")
        things = parser.argument(single_digit=True)
        parser.expect("^")
        return choices(letter, things, parser.argument(single_digit=True))
    if letter == UNORDERED and following.is_symbol("(") and holds_pair(parser):
        parser.expect("(")
        things = parser.sum()
        parser.expect(",")
        taken = parser.sum()
        parser.expect(")")
        return choices(letter, things, taken)
    return None


def parse_left_script(parser: Arguments) -> Expr:
    """`_8C_3` and `^8C_3`, whose first script has just been read."""
    things = parser.argument(single_digit=True)
    letter = parser.peek()
    if letter is None or letter.kind is not Kind.WORD or letter.text not in (UNORDERED, *ORDERED):
        raise Unreadable("unexpected symbol")
    parser.position += 1
    parser.expect("_")
    return choices(letter.text, things, parser.argument(single_digit=True))


def choices(letter: str, things: Expr, taken: Expr) -> Expr:
    """`things` choose `taken`, times `taken!` if their order counts."""
    unordered = bounds.binomial(things, taken)
    return unordered if letter == UNORDERED else unordered * bounds.factorial(taken)


def scripts_count(parser: Arguments, letter: str) -> bool:
    """Whether a subscript and an exponent behind a letter mean choices: both are there, and not fewer things than are
    taken."""
    below, end = script(parser, 1)
    exponent = parser.peek(end)
    if not below or exponent is None or not exponent.is_symbol("^"):
        return False
    above, _ = script(parser, end + 1)
    if below.isdigit() and above.isdigit():
        return int(below[:6]) >= int(above[:6]) > 0
    return letter == UNORDERED and bool(above)


def script(parser: Arguments, offset: int) -> tuple[str, int]:
    """The text of the script that starts `offset` tokens ahead, and the offset behind it; empty for anything but plain
    letters, digits and signs."""
    token = parser.peek(offset)
    if token is None or token.kind is Kind.MACRO or (token.kind is Kind.SYMBOL and token.text != "{"):
        return "", offset
    if token.text != "{":
        return (token.text, offset + 1) if len(token.text) == 1 else ("", offset)
    text = ""
    while (token := parser.peek(offset := offset + 1)) is not None and not token.is_symbol("}"):
        if token.kind not in {Kind.NUMBER, Kind.WORD} and not token.is_symbol("+", "-"):
            return "", offset
        text += token.text
    return text, offset + 1


def holds_pair(parser: Arguments) -> bool:
    """Whether the parenthesis ahead holds two plain arguments; looks no further than its end."""
    commas = offset = 0
    while (token := parser.peek(offset := offset + 1)) is not None and not token.is_symbol(")"):
        if token.kind not in {Kind.NUMBER, Kind.WORD} and not token.is_symbol("+", "-", ","):
            return False
        commas += token.is_symbol(",")
    return token is not None and commas == 1
