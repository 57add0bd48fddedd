"""How one pair of answers is judged, step by step, for a person who doubts a verdict."""

from dataclasses import dataclass, fields

import sympy

from grading import bounds
from grading.compare import is_equivalent
from grading.extract import extract
from grading.kinds import Answer
from grading.normalise import clean, spelling
from grading.read import read_answer
from grading.unreadable import Unreadable
from grading.verdict import Verdict

MAX_SHOWN_BITS = 2_000  # of a number; Python prints no integer beyond 4,300 digits, and nobody reads one
MAX_SHOWN_OPERATIONS = 200


@dataclass(frozen=True, slots=True)
class Step:
    """What was done (`gold, cleaned`) and what came of it."""

    name: str
    result: str


def explain(answer: str, gold: str, *, lenient: bool = True) -> tuple[list[Step], Verdict]:
    """The steps from two texts to the verdict on them.

    `answer` may be a bare answer or a whole completion; where a completion states an answer, that one is judged.
    Runs in the calling process and is meant for what a person types.
    """
    steps = []
    found = extract(answer, lenient=lenient) if "\n" in answer or "boxed" in answer else None
    if found is not None:
        steps.append(Step("answer, extracted", f"{found.answer}  ({found.strategy})"))
        answer = found.answer
    for name, text in (("gold", gold), ("answer", answer)):
        steps += reading(name, text)
    verdict = is_equivalent(answer, gold)
    steps.append(Step("verdict", f"{verdict.outcome.value}: {verdict.reason}"))
    return steps, verdict


def reading(name: str, text: str) -> list[Step]:
    try:
        steps = [Step(f"{name}, cleaned", spelling(clean(text)))]
        steps.append(Step(f"{name}, read", describe(read_answer(text))))
    except Unreadable as fault:
        steps = [Step(f"{name}, read", f"not readable: {fault}")]
    return steps


def describe(answer: object) -> str:
    """The kind of an answer and its parts in a line."""
    if isinstance(answer, sympy.Expr):
        too_long = bounds.height(answer) > MAX_SHOWN_BITS or answer.count_ops() > MAX_SHOWN_OPERATIONS
        return "an expression too long to show" if too_long else str(answer)
    if isinstance(answer, sympy.MatrixBase):
        return f"{answer.rows}x{answer.cols} [{', '.join(map(describe, answer))}]"
    if isinstance(answer, tuple):
        return f"({', '.join(map(describe, answer))})"
    if isinstance(answer, Answer):
        stated = (field for field in fields(answer) if getattr(answer, field.name) != field.default)
        shown = (f"{field.name}={describe(getattr(answer, field.name))}" for field in stated)
        return f"{type(answer).__name__}({', '.join(shown)})"
    return str(answer)
