"""The journal: nothing finished is lost, nothing counts twice."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from pipelines.records.journal import Journal, JournalError, JsonLines, Sample

SAMPLE = Sample(
    problem_id="p",
    sample_index=0,
    prompt_hash="h",
    completion="So $\\boxed{4}$\u2028\nend",
    num_tokens=5,
    finish_reason="eos",
    answer="4",
    gold="4",
    verdict="correct",
    reason="same text",
)


def samples(*names: str) -> list[Sample]:
    return [replace(SAMPLE, problem_id=name) for name in names]


def test_what_was_appended_is_read_back_equal(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "samples.jsonl", Sample)
    journal.append(samples("a", "b"))
    journal.close()
    assert list(Journal(tmp_path / "samples.jsonl", Sample).samples.values()) == samples("a", "b")


def test_a_journal_written_before_a_field_was_added_is_read(tmp_path: Path) -> None:
    row = asdict(SAMPLE)
    for added in ("first_token_s", "policy_version"):
        del row[added]
    (tmp_path / "samples.jsonl").write_text(json.dumps(row) + "\n")
    assert Journal(tmp_path / "samples.jsonl", Sample).samples == {SAMPLE.key: SAMPLE}


def test_a_key_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "samples.jsonl", Sample)
    journal.append(samples("a"))
    assert journal.append([replace(SAMPLE, problem_id="a", verdict="wrong"), *samples("b")]) == samples("b")
    assert len((tmp_path / "samples.jsonl").read_text().splitlines()) == 2


def test_the_first_of_two_lines_with_one_key_counts_and_the_second_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    lines = [SAMPLE, replace(SAMPLE, verdict="wrong")]
    path.write_text("".join(json.dumps(asdict(line)) + "\n" for line in lines))
    journal = Journal(path, Sample)
    assert journal.duplicates == 1
    assert journal.samples[SAMPLE.key].verdict == "correct"


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_torn_last_line_is_dropped_and_the_rest_kept(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "samples.jsonl"
    journal = Journal(path, Sample)
    journal.append(samples("a", "b", "c"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    again = Journal(path, Sample)
    assert again.torn_bytes > 0
    assert [key for key, _ in again.samples] == ["a", "b"]
    again.append(samples("c"))
    assert path.read_bytes() == whole


def test_a_torn_line_longer_than_a_read_block_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    Journal(path, Sample).append(samples("a"))
    with path.open("ab") as file:
        file.write(b'{"problem_id": "' + b"x" * 200_000)
    assert list(Journal(path, Sample).samples) == [("a", 0)]


@pytest.mark.parametrize("broken", ["{oops", '{"problem_id": "x"}', "[1]", ""])
def test_a_broken_line_in_the_middle_is_refused_with_its_number(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "samples.jsonl"
    lines = [json.dumps(asdict(sample)) for sample in samples("a", "b")]
    path.write_text(f"{lines[0]}\n{broken}\n{lines[1]}\n")
    with pytest.raises(JournalError, match=r"samples\.jsonl:2: .*broken"):
        Journal(path, Sample)


def test_a_write_that_the_system_refuses_is_explained_and_loses_nothing(tmp_path: Path) -> None:
    """A limit on the file size makes write fail half-way, as a full disk does."""
    path = tmp_path / "samples.jsonl"
    journal = Journal(path, Sample)
    journal.append(samples("a"))
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 50, hard))
    try:
        with pytest.raises(JournalError, match=r"cannot write .*everything recorded before is safe"):
            journal.append(samples("b"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    journal.append(samples("b"))
    assert len(Journal(path, Sample).samples) == 2


def test_a_full_disk_is_explained() -> None:
    lines = JsonLines(Path("/dev/full"))
    with pytest.raises(JournalError, match="No space left on device"):
        lines.append([{"a": 1}])


def test_a_writer_killed_at_any_moment_leaves_a_readable_journal(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    code = f"""
import itertools
from dataclasses import replace
from pathlib import Path
from tests.pipelines.records.test_journal import SAMPLE
from pipelines.records.journal import Journal, Sample
journal = Journal(Path({str(path)!r}), Sample)
for number in itertools.count(len(journal.samples)):
    journal.append([replace(SAMPLE, problem_id=str(number), completion="x" * 5000)])
    print(number, flush=True)
"""
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
            env=os.environ,
        )
        assert writer.stdout is not None
        told = [writer.stdout.readline() for _ in range(20)]
        time.sleep(0.01)
        writer.send_signal(signal.SIGKILL)
        told += writer.stdout.readlines()
        writer.wait()
        known = Journal(path, Sample).samples
        assert len(known) >= int(told[-1]) + 1
        assert list(known) == [(str(number), 0) for number in range(len(known))]
