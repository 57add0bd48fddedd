"""Majority voting over equivalent answers (self-consistency, arXiv 2203.11171)."""

from collections.abc import Callable, Sequence

from grading.compare import is_equivalent


def equivalent(first: str, second: str) -> bool:
    """Whether two answers are equivalent, whichever of them is taken as the gold answer."""
    return is_equivalent(first, second).correct and is_equivalent(second, first).correct


def majority_vote(
    answers: Sequence[str | None], same: Callable[[str, str], bool] = equivalent
) -> tuple[str | None, float]:
    """The answer that most completions agree on, and their share of all completions.

    Answers that are equivalent count together and are represented by the first of them. A completion without an answer
    (None) does not vote and still counts in the denominator. Of two classes of equal size the one seen first wins.
    Returns `(None, 0.0)` where nobody voted.
    """
    representatives: list[str] = []
    votes: list[int] = []
    spelled: dict[str, int] = {}
    for answer in answers:
        if answer is None:
            continue
        if answer not in spelled:
            known = (index for index, other in enumerate(representatives) if same(answer, other))
            spelled[answer] = next(known, len(representatives))
            if spelled[answer] == len(representatives):
                representatives.append(answer)
                votes.append(0)
        votes[spelled[answer]] += 1
    if not votes:
        return None, 0.0
    most = max(votes)
    return representatives[votes.index(most)], most / len(answers)
