"""Choosing some of the problems."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from pipelines.problems.error import SHOWN, ProblemError
from pipelines.problems.problem import Problem
from pipelines.problems.suggestion import did_you_mean

LIMIT = re.compile(r"(\d+)(?:\s*-\s*(\d+))?")


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters that all apply; empty ones let everything pass.

    `limit` comes last and counts among the problems that the other filters left: 60 or "60" takes the first 60,
    "10-20" those from the 10th to the 20th, both included.
    """

    limit: str | int | None = None
    ids: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    levels: tuple[int, ...] = ()


def parse_limit(limit: str | int | None) -> slice:
    """The slice that a limit means; everything for None. Raises `ValueError` for a limit that makes no sense."""
    if limit is None:
        return slice(None)
    match = None if isinstance(limit, bool) else LIMIT.fullmatch(str(limit).strip())
    if match is None:
        raise ValueError(f"limit {limit!r} is not understood; write 60 for the first 60 problems or 10-20 for a range")
    first, last = (1, int(match[1])) if match[2] is None else (int(match[1]), int(match[2]))
    if first < 1 or last < 1:
        raise ValueError(f"limit {limit!r} selects nothing: problems are counted from 1")
    if last < first:
        raise ValueError(f"limit {limit!r} runs backwards; write {last}-{first}")
    return slice(first - 1, last)


def select(problems: Sequence[Problem], selection: Selection) -> list[Problem]:
    """The problems that pass every filter, in their own order.

    Raises `ProblemError` for an id, a subject or a level that no problem has, for a limit that makes no sense, and when
    nothing is left.
    """
    messages: list[str] = []
    limit = slice(None)
    try:
        limit = parse_limit(selection.limit)
    except ValueError as error:
        messages.append(str(error))
    messages += [*_unknown_ids(problems, selection), *_unknown_subjects(problems, selection)]
    messages += _unknown_levels(problems, selection)
    if messages:
        raise ProblemError("the selection cannot be made:", messages)

    left = list(problems)
    trail = [f"{len(left)} problems in all"]
    for text, keeps in _filters(selection):
        left = [problem for problem in left if keeps(problem)]
        trail.append(f"{text} leaves {len(left)}")
    if selection.limit is not None:
        left = left[limit]
        trail.append(f"limit {selection.limit} leaves {len(left)}")
    if not left:
        raise ProblemError("no problem is left after the selection:", [", then ".join(trail), "loosen one of these"])
    return left


def _filters(selection: Selection) -> list[tuple[str, Callable[[Problem], bool]]]:
    filters: list[tuple[str, Callable[[Problem], bool]]] = []
    if selection.ids:
        ids = set(selection.ids)
        filters.append((f"ids {_listed(selection.ids)}", lambda problem: problem.id in ids))
    if selection.subjects:
        subjects = {subject.casefold() for subject in selection.subjects}
        filters.append(
            (f"subjects {_listed(selection.subjects)}", lambda problem: (problem.subject or "").casefold() in subjects)
        )
    if selection.levels:
        levels = set(selection.levels)
        filters.append((f"levels {_listed(selection.levels)}", lambda problem: problem.level in levels))
    return filters


def _unknown_ids(problems: Sequence[Problem], selection: Selection) -> list[str]:
    known = dict.fromkeys(problem.id for problem in problems)
    unknown = [id_ for id_ in dict.fromkeys(selection.ids) if id_ not in known]
    # Close names cost a pass over all ids, so only the messages that are shown get them.
    hints = [did_you_mean(id_, known, list_known="ids look like") for id_ in unknown[:SHOWN]]
    return [f"ids: no problem has the id {id_!r}{hint}" for id_, hint in zip_longest(unknown, hints, fillvalue="")]


def _unknown_subjects(problems: Sequence[Problem], selection: Selection) -> list[str]:
    known = {problem.subject for problem in problems if problem.subject}
    folded = {subject.casefold() for subject in known}
    hint = "the subjects are" if known else None
    return [
        f"subjects: no problem has the subject {subject!r}{did_you_mean(subject, sorted(known), list_known=hint)}"
        + ("" if known else ": the source states no subjects; leave this filter out")
        for subject in dict.fromkeys(selection.subjects)
        if subject.casefold() not in folded
    ]


def _unknown_levels(problems: Sequence[Problem], selection: Selection) -> list[str]:
    known = sorted({problem.level for problem in problems if problem.level is not None})
    states = f"the levels are {_listed(known)}" if known else "the source states no levels; leave this filter out"
    return [
        f"levels: no problem has level {level!r}; {states}"
        for level in dict.fromkeys(selection.levels)
        if level not in known
    ]


def _listed(values: Sequence[object]) -> str:
    more = f", … ({len(values)} in all)" if len(values) > 5 else ""
    return ", ".join(str(value) for value in values[:5]) + more
