"""Majority voting over equivalent answers (self-consistency, arXiv 2203.11171)."""

from collections.abc import Callable, Sequence

from grading.compare import is_equivalent


def equivalent(first: str, second: str) -> bool:
    """Whether two answers are equivalent, whichever of them is taken as the gold answer."""
    return is_equivalent(first, second).correct and is_equivalent(second, first).correct


def equivalence_classes(
    answers: Sequence[str | None], same: Callable[[str, str], bool] = equivalent
) -> list[tuple[int, ...]]:
    """Indices of the answers that belong together, each class in order and the classes by their first member.

    An answer joins the first class whose first member it is equivalent to. So every answer is in one class, and being
    in one class is transitive whatever the rules of comparison are. None is in no class.
    """
    classes: dict[str, list[int]] = {}  # by their first member
    spelled: dict[str, str] = {}
    for index, answer in enumerate(answers):
        if answer is None:
            continue
        if answer not in spelled:
            spelled[answer] = next((first for first in classes if same(answer, first)), answer)
        classes.setdefault(spelled[answer], []).append(index)
    return [tuple(members) for members in classes.values()]


def majority_vote(
    answers: Sequence[str | None], same: Callable[[str, str], bool] = equivalent
) -> tuple[str | None, float]:
    """The answer that most completions agree on, and their share of all completions.

    Answers that are equivalent count together and are represented by the first of them. A completion without an answer
    (None) does not vote and still counts in the denominator. Of two classes of equal size the one seen first wins;
    `equivalence_classes` shows whether there was a tie. Returns `(None, 0.0)` where nobody voted.
    """
    largest: tuple[int, ...] = max(equivalence_classes(answers, same), key=len, default=())
    return (answers[largest[0]], len(largest) / len(answers)) if largest else (None, 0.0)
