"""The verdict on a whole completion."""

from dataclasses import replace

from grading.compare import is_equivalent
from grading.extract import extract
from grading.verdict import Outcome, Verdict


def grade(completion: str, gold: str, *, lenient: bool = True) -> Verdict:
    """Extracts the answer and compares it with `gold`.

    `unparsed` means that no answer was found or that it cannot be read; `lenient` is explained in `extract`. Runs in
    the calling process: use `GradingProcess` for what a model wrote.
    """
    found = extract(completion, lenient=lenient)
    if found is None:
        return Verdict(Outcome.UNPARSED, "no answer found")
    return replace(is_equivalent(found.answer, gold), answer=found.answer, extraction=found.strategy)
