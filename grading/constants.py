"""Constants of integration, which an answer may call what it likes.

A problem may name its own quantities with capitals too (`Ax + B`), and then names matter. So only the names that
solutions use for a constant of integration are taken for one in the gold answer: a `C` that is added to a function of
a variable, or, in an equation for `y` or `f(x)`, one of the families in `FAMILIES`.
"""

import re
from itertools import permutations

from sympy import Expr, Symbol

from grading.equality import equal

FAMILIES = ({"C"}, {"C", "D"}, {"C_1", "C_2"}, {"C_1", "C_2", "C_3"}, {"c_1", "c_2"}, {"c_1", "c_2", "c_3"})
CONSTANT = re.compile(r"[A-DKck](?:_\d)?")  # what an answer may call its constants
VARIABLE = re.compile(r"[t-z]|theta|r|s")
FUNCTION_LABEL = re.compile(r"y|[A-Za-z]\([t-z]\)")


def same_family(answer: Expr, gold: Expr, label: str = "") -> bool:
    """Whether both describe the same functions once the answer's constants are renamed to those of `gold`.

    `label` is the name in front of the gold answer (`y` in `y = C e^x`), empty where it has none.
    """
    names = {symbol for symbol in gold.free_symbols if CONSTANT.fullmatch(str(symbol))}
    if {str(symbol) for symbol in names} not in FAMILIES:
        return False
    rest = gold.free_symbols - names
    own = answer.free_symbols - rest
    if len(own) != len(names) or not rest <= answer.free_symbols or not any(map(is_variable, rest)):
        return False
    if not all(CONSTANT.fullmatch(str(symbol)) for symbol in own):
        return False
    if not FUNCTION_LABEL.fullmatch(label) and not is_added(gold, names):
        return False
    chosen = sorted(own, key=str)
    return any(
        equal(answer.xreplace(dict(zip(chosen, order, strict=True))), gold)
        for order in permutations(sorted(names, key=str))
    )


def is_variable(symbol: Symbol) -> bool:
    return VARIABLE.fullmatch(str(symbol)) is not None


def is_added(gold: Expr, names: set[Symbol]) -> bool:
    """Whether the only constant is a term of its own, as an antiderivative has it."""
    (constant, *others) = names
    return not others and gold.is_Add and constant in gold.args and not (gold - constant).has(constant)
