"""Subsets of the real line with numeric end points, as sorted disjoint intervals.

The same set can be written as a union, a difference, an interval, an inequality or several; two writings are compared
by what they contain.
"""

from dataclasses import dataclass

import sympy
from sympy import Expr

from grading.equality import equal
from grading.kinds import Answer, Collection, Group, Labelled, Quantity, Relation, SetOperation
from grading.numeric import WORKING, NotComputable, evaluate

INFINITY = WORKING.inf


@dataclass(frozen=True)
class End:
    """An end point: its exact value and a numeric one for ordering."""

    exact: Expr
    position: object

    @staticmethod
    def at(value: Expr) -> "End":
        """Raises `NotComputable` for values that are not real numbers or infinities."""
        if value in (sympy.oo, -sympy.oo):
            return End(value, INFINITY if value is sympy.oo else -INFINITY)
        position = evaluate(value, {})
        if WORKING.im(position) != 0:
            raise NotComputable("not real")
        return End(value, WORKING.re(position))

    def same(self, other: "End") -> bool:
        return equal(self.exact, other.exact)

    def before(self, other: "End") -> bool:
        return not self.same(other) and bool(self.position < other.position)  # type: ignore[operator]


@dataclass(frozen=True)
class Span:
    low: End
    low_closed: bool
    high: End
    high_closed: bool

    def is_empty(self) -> bool:
        return self.high.before(self.low) or (self.low.same(self.high) and not (self.low_closed and self.high_closed))


RealSet = tuple[Span, ...]
LINE: RealSet = (Span(End.at(-sympy.oo), False, End.at(sympy.oo), False),)


def real_set(answer: Answer) -> RealSet | None:
    """The set that an answer describes; None where it is no set of reals with known end points."""
    try:
        return _real_set(answer)
    except NotComputable:
        return None


def _real_set(answer: Answer) -> RealSet | None:
    if isinstance(answer, Labelled):
        return _real_set(answer.value)
    if isinstance(answer, Group):
        return interval(answer)
    if isinstance(answer, Relation):
        return inequality(answer)
    if isinstance(answer, SetOperation):
        return combine(answer)
    if isinstance(answer, Collection):
        if answer.items and not answer.braces and all(isinstance(item, Relation) for item in answer.items):
            return joined_inequalities(answer)
        if answer.braces and len(answer.items) == 1 and isinstance(answer.items[0], Relation):
            return inequality(answer.items[0])
        if answer.braces:
            return finite(answer)
    return None


def interval(group: Group) -> RealSet | None:
    if len(group.items) != 2 or not all(isinstance(item, Quantity) for item in group.items):
        return None
    low, high = (End.at(item.value) for item in group.items if isinstance(item, Quantity))
    span = Span(low, group.brackets[0] == "[", high, group.brackets[1] == "]")
    infinite_closed = (span.low_closed and low.exact.is_infinite) or (span.high_closed and high.exact.is_infinite)
    return None if infinite_closed or not low.before(high) else (span,)


def finite(collection: Collection) -> RealSet | None:
    spans: RealSet = ()
    for item in collection.items:
        if not isinstance(item, Quantity):
            return None
        end = End.at(item.value)
        spans = union(spans, (Span(end, True, end, True),))
    return spans


def inequality(relation: Relation) -> RealSet | None:
    """The solutions of a chain such as `-793 < a \\le 10` with one bare variable and numbers around it."""
    distance = distance_inequality(relation)
    if distance is not None:
        return distance
    variables = [side for side in relation.sides if side.is_Symbol]
    if len(variables) != 1 or len(set(relation.operators)) > 2 or len(relation.sides) > 3 or "=" in relation.operators:
        return None
    place = relation.sides.index(variables[0])
    solutions = LINE
    for index, operator in enumerate(relation.operators):
        left, right = relation.sides[index], relation.sides[index + 1]
        if place not in (index, index + 1):
            return None
        end = End.at(right if place == index else left)
        solutions = intersection(solutions, half_line(operator, end, variable_first=place == index))
    return solutions


def distance_inequality(relation: Relation) -> RealSet | None:
    """`|x| < 3` or `|x - 2| \\ge 1`: the points nearer to, or farther from, a number than a distance."""
    if len(relation.sides) != 2 or relation.operators[0] in ("=", "!="):
        return None
    inside = [side.args[0] for side in relation.sides if isinstance(side, sympy.Abs)]
    radii = [side for side in relation.sides if side.is_number and side.is_positive]
    if len(inside) != 1 or len(radii) != 1 or len(inside[0].free_symbols) != 1:
        return None
    (variable,) = inside[0].free_symbols
    center = variable - inside[0] if (inside[0] - variable).is_number else None
    if center is None:
        return None
    closed = relation.operators[0].endswith("=")
    low, high = End.at(center - radii[0]), End.at(center + radii[0])
    near = relation.operators[0].startswith("<") == isinstance(relation.sides[0], sympy.Abs)
    return (Span(low, closed, high, closed),) if near else complement((Span(low, not closed, high, not closed),))


def half_line(operator: str, end: End, variable_first: bool) -> RealSet:
    if operator == "!=":
        return complement((Span(end, True, end, True),))
    below = operator.startswith("<") == variable_first
    closed = operator.endswith("=")
    line = LINE[0]
    return (Span(line.low, False, end, closed),) if below else (Span(end, closed, line.high, False),)


def joined_inequalities(collection: Collection) -> RealSet | None:
    """`x < 1` or `x > 3` is a union, `x > 1` and `x < 3` an intersection; a comma leaves it open."""
    relations = [item for item in collection.items if isinstance(item, Relation)]
    variables = {side for relation in relations for side in relation.sides if side.is_Symbol}
    sets = [inequality(relation) for relation in relations]
    if len(variables) != 1 or collection.joined == "," or any(part is None for part in sets):
        return None
    solutions: RealSet = () if collection.joined == "or" else LINE
    for part in sets:
        solutions = (union if collection.joined == "or" else intersection)(solutions, part or ())
    return solutions


def combine(operation: SetOperation) -> RealSet | None:
    parts = [_real_set(part) for part in operation.parts]
    result = parts[0]
    for operator, part in zip(operation.operators, parts[1:], strict=True):
        if result is None or part is None:
            return None
        if operator == "cup":
            result = union(result, part)
        else:
            result = intersection(result, part if operator == "cap" else complement(part))
    return result


def union(left: RealSet, right: RealSet) -> RealSet:
    return complement(intersection(complement(left), complement(right)))


def intersection(left: RealSet, right: RealSet) -> RealSet:
    pieces = []
    for a in left:
        for b in right:
            low, low_closed = tighter(a.low, a.low_closed, b.low, b.low_closed, upper=False)
            high, high_closed = tighter(a.high, a.high_closed, b.high, b.high_closed, upper=True)
            piece = Span(low, low_closed, high, high_closed)
            if not piece.is_empty():
                pieces.append(piece)
    return tuple(pieces)


def tighter(a: End, a_closed: bool, b: End, b_closed: bool, upper: bool) -> tuple[End, bool]:
    if a.same(b):
        return a, a_closed and b_closed
    return (a, a_closed) if a.before(b) == upper else (b, b_closed)


def complement(spans: RealSet) -> RealSet:
    """The rest of the line, from sorted disjoint spans, in order."""
    rest: RealSet = LINE
    for span in spans:
        line = LINE[0]
        outside = (
            Span(line.low, False, span.low, not span.low_closed),
            Span(span.high, not span.high_closed, line.high, False),
        )
        rest = intersection(rest, tuple(piece for piece in outside if not piece.is_empty() and is_proper(piece)))
    return rest


def is_proper(span: Span) -> bool:
    """Infinity belongs to no set, so a span between one infinity and itself is empty."""
    return not (span.low.same(span.high) and span.low.exact.is_infinite)


def same_set(left: RealSet, right: RealSet) -> bool:
    return len(left) == len(right) and all(
        a.low.same(b.low) and a.high.same(b.high) and (a.low_closed, a.high_closed) == (b.low_closed, b.high_closed)
        for a, b in zip(left, right, strict=True)
    )
