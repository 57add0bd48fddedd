"""Matrices in LaTeX environments."""

from collections.abc import Callable

import sympy
from sympy import Expr, Matrix

from grading.cursor import Cursor
from grading.tokens import Kind
from grading.unreadable import Unreadable

MAX_ENTRIES = 100
ENVIRONMENTS = {"pmatrix", "bmatrix", "matrix", "smallmatrix", "array", "Bmatrix"}


def parse_matrix(cursor: Cursor, entry: Callable[[], Expr]) -> Matrix:
    """The matrix whose `\\begin` has just been read; `entry` reads one entry at the cursor."""
    environment = parse_environment(cursor)
    if environment not in ENVIRONMENTS:  # a determinant or a drawing is no matrix
        raise Unreadable("unknown environment")
    if environment == "array":
        skip_column_format(cursor)
    rows: list[list[Expr]] = [[]]
    count = 0
    while not cursor.take_macro("end"):
        if cursor.take_symbol("\\\\"):
            rows.append([])
        elif not cursor.take_symbol("&"):
            rows[-1].append(entry())
            count += 1
            if count > MAX_ENTRIES:
                raise Unreadable("too long")
    if parse_environment(cursor) != environment:
        raise Unreadable("unbalanced environment")
    rows = rows if rows[-1] else rows[:-1]  # a row break may close the last row
    if not rows or not rows[0] or len({len(row) for row in rows}) != 1:
        raise Unreadable("ragged matrix")
    return sympy.Matrix(rows)


def parse_environment(cursor: Cursor) -> str:
    cursor.expect("{")
    token = cursor.peek()
    if token is None or token.kind is not Kind.WORD:
        raise Unreadable("unknown environment")
    cursor.position += 1
    cursor.expect("}")
    return token.text


def skip_column_format(cursor: Cursor) -> None:
    if not cursor.take_symbol("{"):
        return
    while not cursor.take_symbol("}"):
        if cursor.peek() is None:
            raise Unreadable("unbalanced braces")
        cursor.position += 1
