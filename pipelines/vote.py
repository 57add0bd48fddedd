"""Voting: a grading child says which of a problem's answers are equivalent, and the run folder keeps it."""

from collections.abc import Callable, Mapping
from functools import partial
from operator import eq

from grading import GraderBroken, GradingLimits, GradingProcess, equivalence_classes
from pipelines.dispatch.work import FatalError
from pipelines.records.journal import Journal
from pipelines.records.votes import Ballot, Vote
from pipelines.terminal.console import Console
from pipelines.terminal.status import Status

TOGETHER = 16
"""Votes that are recorded together."""


def take_votes(
    ballots: Mapping[str, Ballot],
    journal: Journal[Vote],
    limits: GradingLimits,
    stop: Callable[[], bool],
    console: Console,
) -> dict[str, Vote] | None:
    """The vote over each of `ballots`, by problem: those that `journal` has, and the others, which it gets.

    Answers are compared in a child process of this one. A problem for which they cannot all be compared within
    `limits.deadline_s` is voted on by the text of its answers, and named. None when a stop is requested before all
    are there. Raises FatalError where the child does not work.
    """
    missing = [key for key in ballots.items() if key not in journal.samples]
    try:
        if missing:
            with GradingProcess(limits) as process:
                for first in range(0, len(missing), TOGETHER):
                    console.show(partial(Status, "votes", first, len(missing), "votes"))
                    batch = missing[first : first + TOGETHER]
                    taken = [_take(name, ballot, process) for name, ballot in batch if not stop()]
                    journal.append(taken)
                    if len(taken) < len(batch):
                        return None
    except GraderBroken as error:
        raise FatalError(f"answers cannot be compared: {error}") from error
    found = {name: journal.samples[name, ballot] for name, ballot in ballots.items()}
    by_text = [name for name, vote in found.items() if vote.by == "text"]
    if by_text:
        console.warn(
            f"{len(by_text)} problem(s) are voted on by the text of the answers, which could not be compared within "
            f"{limits.deadline_s:g} s (grading.deadline_s): {', '.join(by_text[:5])}"
        )
    return found


def _take(name: str, ballot: Ballot, process: GradingProcess) -> Vote:
    classes = process.equivalence_classes(ballot)
    if classes is not None:
        return Vote(name, ballot, tuple(classes), "equivalence")
    return Vote(name, ballot, tuple(equivalence_classes(ballot, eq)), "text")
