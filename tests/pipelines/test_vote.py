"""Votes with a real grading child."""

import io
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from grading import GradingLimits
from pipelines.records.journal import Journal
from pipelines.records.votes import Ballot, Vote
from pipelines.terminal.console import Console
from pipelines.vote import TOGETHER, take_votes

BALLOTS: dict[str, Ballot] = {"p": ("1/2", None, "0.5", "3"), "q": (None, None), "r": (r"x^2+2x+1", r"(x+1)^2")}


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal[Vote]]:
    with closing(Journal(tmp_path / "votes.jsonl", Vote)) as opened:
        yield opened


def taken(journal: Journal[Vote], limits: GradingLimits, stop: bool = False) -> tuple[dict[str, Vote] | None, str]:
    said = io.StringIO()
    return take_votes(BALLOTS, journal, limits, lambda: stop, Console(said)), said.getvalue()


def test_equivalent_answers_are_one_class(journal: Journal[Vote]) -> None:
    votes, said = taken(journal, GradingLimits())
    assert votes is not None
    assert {name: vote.classes for name, vote in votes.items()} == {"p": ((0, 2), (3,)), "q": (), "r": ((0, 1),)}
    assert {vote.by for vote in votes.values()} == {"equivalence"}
    assert "warning" not in said


def test_answers_that_take_too_long_to_compare_are_voted_on_by_their_text_and_named(journal: Journal[Vote]) -> None:
    votes, said = taken(journal, GradingLimits(deadline_s=1e-6))
    assert votes is not None
    assert (votes["p"].classes, votes["p"].by) == (((0,), (2,), (3,)), "text")
    assert "3 problem(s) are voted on by the text of the answers" in said
    assert "p, q, r" in said


def test_what_is_known_is_not_asked_again(journal: Journal[Vote]) -> None:
    known = [Vote(name, ballot, (), "text") for name, ballot in BALLOTS.items()]
    journal.append(known)
    votes, _ = taken(journal, GradingLimits(), stop=True)
    assert votes == {vote.problem_id: vote for vote in known}


def test_a_stop_keeps_what_is_there_and_gives_no_half_result(tmp_path: Path, journal: Journal[Vote]) -> None:
    many: dict[str, Ballot] = {f"p{n}": (str(n), "1") for n in range(2 * TOGETHER)}
    asked = iter(range(len(many)))
    stop = lambda: next(asked) >= TOGETHER + 3  # noqa: E731
    assert take_votes(many, journal, GradingLimits(), stop, Console(io.StringIO())) is None
    assert len(journal.samples) == (tmp_path / "votes.jsonl").read_text().count("\n") == TOGETHER + 3
