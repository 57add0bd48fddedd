"""Cuts a cleaned answer into tokens."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from grading.normalise import closing_brace
from grading.unreadable import Unreadable

MAX_TOKENS = 600


class Kind(Enum):
    NUMBER = auto()  # 12, .5, 1.5e3; thousands separators are already gone from the text
    WORD = auto()  # a run of plain letters: variables, a function name, a unit or prose
    MACRO = auto()  # \pi, text without the backslash
    TEXT = auto()  # \text{...}, the words inside
    SYMBOL = auto()  # one character, or an escaped one such as \{ with its backslash


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    text: str
    gap: bool = False  # a blank stands before it

    def is_symbol(self, *texts: str) -> bool:
        return self.kind is Kind.SYMBOL and self.text in texts

    def is_macro(self, *texts: str) -> bool:
        return self.kind is Kind.MACRO and self.text in texts


OPENING = {"(": 1, "[": 1, "\\{": 1}
CLOSING = {")": 1, "]": 1, "\\}": 1}
UPRIGHT = {"mathrm", "mathbf", "mathit", "mathsf", "mathcal", "operatorname", "boldsymbol", "rm", "bm"}
TEXT_MACROS = UPRIGHT | {
    "text",
    "textbf",
    "textit",
    "textrm",
    "textsf",
    "texttt",
    "textsc",
    "textnormal",
    "mbox",
    "hbox",
}
RENAMED = {
    "lbrace": "\\{", "rbrace": "\\}", "lbrack": "[", "rbrack": "]", "lparen": "(", "rparen": ")",
    "lvert": "|", "rvert": "|", "vert": "|", "langle": "(", "rangle": ")", "colon": ":", "dollar": "\\$",
    "lt": "<", "gt": ">", "ast": "*",
}  # fmt: skip
UPRIGHT_MATHEMATICS = re.compile(
    r"\s*(?:[A-Za-z]|(?:arc)?(?:sin|cos|tan|cot|sec|csc)|sinh|cosh|tanh|log|ln|exp|cis|gcd|lcm)\s*"
)
INNER_TEXT = re.compile(r"\\[A-Za-z]+\s*\{|[{}$]|\\[,;:! ]?")

PATTERN = re.compile(
    r"(?P<gap> +)"
    r"|(?P<thousands>[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?(?!,?\d))"
    r"|(?P<number>(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+(?![A-Za-z]))?)"
    r"|\\(?P<macro>[A-Za-z]+)"
    r"|(?P<escaped>\\.)"
    r"|(?P<word>[A-Za-z]+)"
    r"|(?P<ellipsis>\.\.\.+)"
    r"|(?P<power>\*\*)"
    r"|(?P<relation><=|>=|!=|==)"
    r"|(?P<symbol>[-+*/^_=<>()\[\]{}|!,;:.'&%$€£#])",
    re.S,
)
RELATIONS = {"<=": "le", ">=": "ge", "!=": "ne"}


def tokenize(text: str) -> list[Token]:
    """The tokens of a cleaned answer.

    A comma between groups of three digits (`58,500`) separates thousands only outside brackets: `(58,500)` is a pair.
    Raises `Unreadable` for characters that mathematics does not use and for more than `MAX_TOKENS` tokens.
    """
    tokens: list[Token] = []
    position = depth = 0
    gap = False
    while position < len(text):
        match = PATTERN.match(text, position)
        if match is None:
            raise Unreadable("unknown character")
        position = match.end()
        name, piece = match.lastgroup, match.group(match.lastgroup or 0)
        if name == "gap":
            gap = True
            continue
        if name == "thousands" and depth > 0:
            piece = piece.split(",")[0].split(".")[0]
            position = match.start() + len(piece)
        if name == "macro" and piece in TEXT_MACROS:
            token, position = text_token(text, position, piece, gap)
        else:
            token = plain_token(str(name), piece, gap)
        depth += OPENING.get(token.text, 0) - CLOSING.get(token.text, 0)
        tokens.append(token)
        gap = False
        if len(tokens) > MAX_TOKENS:
            raise Unreadable("too long")
    return tokens


def plain_token(name: str, piece: str, gap: bool) -> Token:
    if name in {"thousands", "number"}:
        return Token(Kind.NUMBER, piece.replace(",", ""), gap)
    if name == "word":
        return Token(Kind.WORD, piece, gap)
    if name == "macro":
        return Token(Kind.SYMBOL, RENAMED[piece], gap) if piece in RENAMED else Token(Kind.MACRO, piece, gap)
    if name == "ellipsis":
        return Token(Kind.MACRO, "ldots", gap)
    if name == "power":
        return Token(Kind.SYMBOL, "^", gap)
    if name == "relation":
        return Token(Kind.MACRO, RELATIONS[piece], gap) if piece in RELATIONS else Token(Kind.SYMBOL, "=", gap)
    if piece in {"\\%", "\\$", "\\_", "\\&", "\\#"}:
        piece = piece[1] if piece != "\\$" else "$"
    elif piece == "\\|":
        piece = "|"
    return Token(Kind.SYMBOL, piece, gap)


def text_token(text: str, position: int, macro: str, gap: bool) -> tuple[Token, int]:
    """The token of a text macro whose name ends at `position`, and where it ends.

    A single upright letter (`\\mathrm{e}`) and an upright function name are mathematics, not text.
    """
    start = position
    while start < len(text) and text[start] == " ":
        start += 1
    if start < len(text) and text[start] == "{":
        end = closing_brace(text, start)
        if end < 0:
            raise Unreadable("unbalanced braces")
        content, position = text[start + 1 : end], end + 1
    else:
        content, position = text[start : start + 1], start + 1
    if macro in UPRIGHT and UPRIGHT_MATHEMATICS.fullmatch(content):
        return Token(Kind.WORD, content.strip(), gap), position
    return Token(Kind.TEXT, re.sub(r"\s+", " ", INNER_TEXT.sub(" ", content)).strip(), gap), position


def join(tokens: Sequence[Token]) -> str:
    return "".join(token.text for token in tokens)
