"""What an answer can be, once it is read."""

from dataclasses import dataclass
from typing import TypeAlias

from sympy import Expr, Matrix

from grading.units import Unit


@dataclass(frozen=True)
class Quantity:
    """A number or expression, perhaps with a unit or a percent sign. `decimals` counts the places of an answer that
    is one decimal literal and nothing else."""

    value: Expr
    unit: Unit | None = None
    percent: bool = False
    decimals: int = 0


@dataclass(frozen=True)
class Numeral:
    """Digits with an explicit base, `52_8`."""

    digits: str
    base: int


@dataclass(frozen=True)
class Group:
    """Ordered values in brackets: a point, a vector or an interval. `brackets` is `()`, `[)` and so on."""

    brackets: str
    items: tuple["Answer", ...]


@dataclass(frozen=True)
class Collection:
    """Unordered values: a bare list or a set. `joined` is `,`, `or` or `and`."""

    items: tuple["Answer", ...]
    braces: bool = False
    joined: str = ","


@dataclass(frozen=True)
class SetOperation:
    """Sets joined from left to right by `cup`, `cap` or `setminus`."""

    parts: tuple["Answer", ...]
    operators: tuple[str, ...]


@dataclass(frozen=True)
class Relation:
    """A chain of comparisons; `operators` are `=`, `<`, `<=`, `>`, `>=`, `!=`."""

    sides: tuple[Expr, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True)
class Labelled:
    """`x = 5`, `x \\in [0, 1]`, `f(x) = x^2`: a value with its name in front. `name` is an expression if it reads as
    one."""

    label: str
    value: "Answer"
    name: Expr | None = None


@dataclass(frozen=True)
class Congruence:
    """`x \\equiv 4 \\pmod 7`: residues, reduced, of what `name` calls; `name` may be empty."""

    residues: tuple[Expr, ...]
    modulus: Expr
    name: str = ""


@dataclass(frozen=True)
class MatrixAnswer:
    matrix: Matrix


@dataclass(frozen=True)
class Colon:
    """Numbers with colons between them: a ratio `7:32` or a time of day `3:30`, which look alike. `clock` says that it
    looks like a time; `ratio` that it cannot be one, because its minutes would have one digit, three, or a sign."""

    parts: tuple[Expr, ...]
    half_of_day: str = ""
    clock: bool = False
    ratio: bool = False


@dataclass(frozen=True)
class Text:
    """Words: a name, a colour, a choice letter."""

    words: str


Answer: TypeAlias = (
    Quantity
    | Numeral
    | Group
    | Collection
    | SetOperation
    | Relation
    | Labelled
    | Congruence
    | MatrixAnswer
    | Colon
    | Text
)
