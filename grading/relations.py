"""Rules for equations and inequalities."""

import sympy
from sympy import Expr

from grading.equality import equal, proportional
from grading.kinds import Answer, Labelled, Quantity, Relation

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


def equation(answer: Answer) -> Expr | None:
    """Left side minus right side."""
    if isinstance(answer, Labelled) and isinstance(answer.value, Quantity) and answer.name is not None:
        return answer.name - answer.value.value
    if isinstance(answer, Relation) and answer.operators == ("=",):
        return answer.sides[0] - answer.sides[1]
    return None


def match_equations(answer: Expr | None, gold: Expr | None) -> str:
    """Equations are the same if one is a constant multiple of the other."""
    if answer is None or gold is None or answer.has(sympy.oo) or gold.has(sympy.oo):
        return ""
    return "same equation" if proportional(answer, gold) else ""


def match_relations(answer: Relation, gold: Relation) -> str:
    """Chains term by term in either direction; single relations also after moving terms across."""
    if answer.operators == ("=",) and gold.operators == ("=",):
        return match_equations(equation(answer), equation(gold))
    for candidate in (answer, mirrored(answer)):
        if candidate.operators == gold.operators and all(map(equal, candidate.sides, gold.sides)):
            return "same relation"
    if len(answer.operators) == len(gold.operators) == 1:
        left, right = ascending(answer), ascending(gold)
        if left.operators == right.operators:
            sides = left.sides[1] - left.sides[0], right.sides[1] - right.sides[0]
            symmetric = gold.operators[0] == "!="
            if not any(side.has(sympy.oo) for side in sides) and proportional(*sides, positive=not symmetric):
                return "same relation"
    return ""


def mirrored(relation: Relation) -> Relation:
    return Relation(relation.sides[::-1], tuple(MIRRORED[operator] for operator in relation.operators[::-1]))


def ascending(relation: Relation) -> Relation:
    return mirrored(relation) if relation.operators[0].startswith(">") else relation
