"""Congruences: `x \\equiv 4 \\pmod{7}`."""

from collections.abc import Sequence

from sympy import Expr

from grading.kinds import Congruence
from grading.parse import Parser
from grading.tokens import Kind, Token, join
from grading.unreadable import Unreadable

MODULUS_MACROS = ("pmod", "bmod", "mod", "pod")


def read_congruence(tokens: Sequence[Token]) -> Congruence | None:
    """One congruence that fills `tokens`, with one residue or several between commas; None where there is none.

    Raises `Unreadable` where a modulus stands but the rest is no congruence of numbers.
    """
    place = next((index for index, token in enumerate(tokens) if is_modulus(token)), None)
    if place is None or any(is_modulus(token) for token in tokens[place + 1 :]):
        return None
    front, behind = list(tokens[:place]), list(tokens[place + 1 :])
    if front and front[-1].is_symbol("(") and behind and behind[-1].is_symbol(")"):  # `(\text{mod } 7)`
        front, behind = front[:-1], behind[:-1]
    if not front or not behind:
        raise Unreadable("missing operand")
    name = ""
    relation = next(
        (index for index, token in enumerate(front) if token.is_macro("equiv") or token.is_symbol("=")), None
    )
    if relation is not None:
        name, front = join(front[:relation]), front[relation + 1 :]
    modulus = scalar_value(behind)
    if not modulus.is_Integer or modulus <= 1:
        raise Unreadable("modulus is no number")
    residues = tuple(scalar_value(piece) % modulus for piece in pieces(front))
    return Congruence(residues, modulus, name)


def is_modulus(token: Token) -> bool:
    spelled = token.kind in {Kind.TEXT, Kind.WORD} and token.text.strip(" (") in {"mod", "modulo"}
    return token.is_macro(*MODULUS_MACROS) or spelled


def pieces(tokens: Sequence[Token]) -> list[list[Token]]:
    """The residues between commas and conjunctions."""
    found: list[list[Token]] = [[]]
    for token in tokens:
        if token.is_symbol(",") or (token.kind in {Kind.TEXT, Kind.WORD} and token.text.strip(" ,") in {"or", "and"}):
            found.append([])
        else:
            found[-1].append(token)
    return [piece for piece in found if piece]


def scalar_value(tokens: Sequence[Token]) -> Expr:
    """An integer; a residue of anything else has no meaning that all agree on."""
    value = Parser(tokens).parse()
    if not isinstance(value, Expr) or not value.is_Integer:
        raise Unreadable("no integer in a congruence")
    return value
