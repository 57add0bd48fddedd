"""Judging again: what changed, and nothing touched."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from pipelines.cli import main
from pipelines.records.journal import Sample


def sample(name: str, completion: str, gold: str, verdict: str, finish: str = "eos") -> Sample:
    return Sample(name, 0, "hash", completion, 3, finish, None, gold, verdict, "")


SAMPLES = [
    sample("same", r"\boxed{1/2}", "0.5", "correct"),
    sample("accepted wrongly", r"\boxed{3}", "4", "correct"),
    sample("refused wrongly", r"\boxed{(x+1)^2}", "x^2+2x+1", "wrong"),
    sample("failed", "", "4", "error", finish="error"),
]


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    lines = [json.dumps(asdict(each)) + "\n" for each in SAMPLES]
    (tmp_path / "samples.jsonl").write_text("".join(lines) + '{"problem_id": "still being wri')
    return tmp_path


def test_a_run_is_judged_again_and_only_changed_verdicts_are_listed(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (run_folder / "samples.jsonl").read_bytes()
    assert main(["grade", str(run_folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["samples"] == 4
    assert found["before"] == {"correct": 2, "wrong": 1, "error": 1}
    assert found["after"] == {"correct": 2, "wrong": 1, "error": 1}
    assert [(each["problem_id"], each["before"], each["after"]) for each in found["changes"]] == [
        ("accepted wrongly", "correct", "wrong"),
        ("refused wrongly", "wrong", "correct"),
    ]
    assert (run_folder / "samples.jsonl").read_bytes() == before


def test_several_samples_of_a_problem_are_judged_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    several = [replace(sample("p", rf"\boxed{{{n}}}", "2", "wrong"), sample_index=n) for n in range(4)]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(asdict(each)) + "\n" for each in several))
    assert main(["grade", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["after"] == {"correct": 1, "wrong": 3}
    assert [(each["problem_id"], each["sample_index"]) for each in found["changes"]] == [("p", 2)]


def test_a_pair_is_explained_step_by_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grade", "--gold", r"\frac12", "--answer", r"so \boxed{0.5}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("answer, extracted")
    assert lines[-1].split()[:2] == ["verdict", "correct:"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give either a run folder, or both"),
        (["--gold", "1"], "give either a run folder, or both"),
        (["somewhere", "--gold", "1", "--answer", "1"], "give either a run folder, or both"),
        (["no-such-run"], "no-such-run: no run there, nor in runs/"),
    ],
)
def test_what_cannot_be_judged_is_refused_in_plain_words(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["grade", *words]) == 2
    assert said in capsys.readouterr().err
