"""Who votes for what, and that a vote is known again for these answers only."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from pipelines.records.journal import Journal
from pipelines.records.votes import Vote, ballots
from tests.pipelines.records.test_journal import SAMPLE


def test_samples_vote_in_the_order_of_their_index_and_faults_do_not() -> None:
    spec = [(2, "3", "wrong"), (0, "1/2", "correct"), (1, None, "unparsed"), (3, "7", "timeout"), (4, "7", "error")]
    samples = [replace(SAMPLE, problem_id="p", sample_index=i, answer=a, verdict=v) for i, a, v in spec]
    other = replace(SAMPLE, problem_id="q", answer="x", verdict="unparsed")
    assert ballots([*samples, other]) == {"p": ("1/2", None, "3", None, None), "q": ("x",)}


def test_a_vote_that_was_written_is_read_as_itself_and_a_torn_one_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    vote = Vote("p", ("1/2", "0.5", None, "3"), ((0, 1), (3,)), "equivalence")
    longer = Vote("p", ("1/2", "0.5", None, "3", "3"), ((0, 1), (3, 4)), "text")
    with closing(Journal(path, Vote)) as journal:
        journal.append([vote])
        journal.append([longer])
    path.write_bytes(path.read_bytes()[:-5])
    with closing(Journal(path, Vote)) as journal:
        assert journal.samples == {vote.key: vote}
        assert longer.key not in journal.samples
