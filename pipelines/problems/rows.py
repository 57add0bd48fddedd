"""From the rows of a table to problems, with every fault of the table reported at once."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.problems.error import ProblemError
from pipelines.problems.problem import Problem
from pipelines.problems.suggestion import did_you_mean

DEFAULT_COLUMNS: dict[str, str] = {
    "problem": "problem",
    "answer": "answer",
    "id": "unique_id",
    "subject": "subject",
    "level": "level",
    "solution": "solution",
}
REQUIRED_FIELDS = ("problem", "answer")
LEVEL = re.compile(r"(?:level\s*)?([1-5])(?:\.0)?", re.IGNORECASE)
UNKNOWN_LEVEL = re.compile(r"(?:level\s*)?\?", re.IGNORECASE)
ROWS_NAMED = 10


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table; `place` names it in messages ("line 12")."""

    place: str
    values: Mapping[str, Any]


class CellError(ValueError):
    """A value that cannot be used in its field; the text says why."""


def problems_from_rows(
    rows: Sequence[Row],
    columns: Mapping[str, str | None],
    name: str,
    faults: Sequence[str] = (),
    left_out: list[str] | None = None,
) -> list[Problem]:
    """Problems in the order of `rows`.

    `columns` maps fields of `Problem` to column names and overrides `DEFAULT_COLUMNS`; None or "" means that the
    table has no such column. A table without ids gets them from the problem texts: a hash, with an ordinal behind it for
    texts that occur more than once. One without answers gets what each solution boxes. `name` names the table in
    messages; `faults` are those already found while reading it.

    Raises `ProblemError` with every fault of the table. Where `left_out` is given, the faults of single rows go there
    instead, and those rows are left out; of rows with one id, the first stays.
    """
    names = resolve_columns(columns, name)
    problems: list[tuple[str, Problem]] = []
    messages = list(faults)
    if not rows and not messages:
        messages.append("it holds no rows: nothing to do")
    names, column_messages = _present_columns(rows, names, columns)
    messages += column_messages
    has_ids = names["id"] is not None
    seen_texts: Counter[str] = Counter()
    if not column_messages:
        for row in rows:
            values, row_messages = _read_row(row, names)
            messages += row_messages
            if not has_ids and "problem" in values:
                values["id"] = _id_from_text(values["problem"], seen_texts)
            if not row_messages:
                problems.append((row.place, Problem(**values)))
    messages += _duplicate_ids(problems)
    if messages and (left_out is None or column_messages or not problems):
        raise ProblemError(f"{name} cannot be used:", messages)
    if left_out is not None:
        left_out += messages
    return list({problem.id: problem for _, problem in reversed(problems)}.values())[::-1]


def resolve_columns(columns: Mapping[str, str | None], name: str) -> dict[str, str | None]:
    """The column of each field of `Problem`; raises `ProblemError` for a field that does not exist."""
    messages = []
    for field, column in columns.items():
        if field not in DEFAULT_COLUMNS:
            hint = did_you_mean(field, DEFAULT_COLUMNS, list_known="fields")
            messages.append(f"data.columns.{field}: a problem has no field {field!r}{hint}")
        elif not column and field == "problem":
            messages.append(f"data.columns.{field}: every table needs this column; give its name")
    if messages:
        raise ProblemError(f"{name}: the column names cannot be used:", messages)
    return {field: column or None for field, column in {**DEFAULT_COLUMNS, **columns}.items()}


def _present_columns(
    rows: Sequence[Row], names: dict[str, str | None], asked: Mapping[str, str | None]
) -> tuple[dict[str, str | None], list[str]]:
    """Drops optional columns that hold nothing anywhere, complains about columns that should be there."""
    found = dict.fromkeys(key for row in rows for key in row.values)
    filled = {key for row in rows for key, value in row.values.items() if not _is_blank(value)}
    present: dict[str, str | None] = {}
    messages = []
    for field, column in names.items():
        needed = field in REQUIRED_FIELDS or field in asked
        if column is not None and rows and column not in found and needed:
            hint = did_you_mean(column, found)
            messages.append(
                f"no column {column!r} for the field {field!r}{hint} "
                f"The columns found are: {', '.join(found) or 'none'}. "
                f"Name the right one with data.columns.{field}=<name>"
                + (', or take what solutions box with data.columns.answer=""' if field == "answer" else "")
            )
        # Only a required column stays when it is blank throughout, so that its rows are reported one by one.
        present[field] = column if column in filled or field in REQUIRED_FIELDS else None
    return present, messages


def _read_row(row: Row, names: Mapping[str, str | None]) -> tuple[dict[str, Any], list[str]]:
    values: dict[str, Any] = {}
    messages = []
    for field, column in names.items():
        if column is None:
            continue
        value = row.values.get(column)
        try:
            if field == "level":
                values[field] = parse_level(value)
            elif field in (*REQUIRED_FIELDS, "id"):
                values[field] = _required_text(value, field)
            else:
                values[field] = None if _is_blank(value) else _text(value)
        except CellError as error:
            messages.append(f"{row.place}: {field} (column {column!r}) {error}")
    if names["answer"] is None:
        try:
            values["answer"] = _boxed(values.get("solution"))
        except CellError as error:
            messages.append(f"{row.place}: answer {error}")
    return values, messages


def _boxed(solution: str | None) -> str:
    from grading import extract  # late: the grader loads sympy, which few sources need

    found = extract(solution or "", lenient=False)
    if found is None:
        raise CellError("is missing: the table has no column for it, and the solution boxes none")
    return found.answer


def parse_level(value: Any) -> int | None:
    """1 to 5 from 3, "3" or "Level 3"; None from None, "" or "Level ?". Raises `CellError` for anything else."""
    if _is_blank(value):
        return None
    text = str(value).strip()
    if not isinstance(value, bool):
        if match := LEVEL.fullmatch(text):
            return int(match.group(1))
        if UNKNOWN_LEVEL.fullmatch(text):
            return None
    raise CellError(
        f"is {value!r}, which is not a level from 1 to 5; "
        "write 3, '3', 'Level 3' or null, or leave the column out with data.columns.level=\"\""
    )


def _required_text(value: Any, field: str) -> str:
    if _is_blank(value):
        remedy = (
            '; give every row an id, or leave the column out with data.columns.id="" and ids are made from the texts'
            if field == "id"
            else "; fill it in or remove the row"
        )
        raise CellError(f"is {'missing' if value is None else 'empty'}{remedy}")
    return _text(value)


def _text(value: Any) -> str:
    """Numbers are written out; `id`s and answers are often integers in JSON."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise CellError(f"is a {type(value).__name__}, not text or a number: {str(value)[:60]!r}")
    text = str(value)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise CellError(f"holds half of a surrogate pair, which is not text: {ascii(text)[:60]}") from None
    return text


def _is_blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _id_from_text(text: str, seen: Counter[str]) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]
    seen[digest] += 1
    return digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"


def _duplicate_ids(problems: Sequence[tuple[str, Problem]]) -> list[str]:
    places: dict[str, list[str]] = {}
    for place, problem in problems:
        places.setdefault(problem.id, []).append(place)
    messages = []
    for id_, where in places.items():
        if len(where) == 1:
            continue
        named = ", ".join(where[:ROWS_NAMED])
        if len(where) > ROWS_NAMED:
            named += f" and {len(where) - ROWS_NAMED} more"
        messages.append(f"the id {id_!r} stands on {named}; ids must be unique, so change or remove all but one")
    return messages
