"""The list of runs: what state each is in, told from its folder alone."""

import json
import os
from pathlib import Path

import pytest

from pipelines.cli import main
from pipelines.records.run_folder import open_run_folder
from pipelines.records.runs import read_run
from pipelines.runs import age_text, size_text
from tests.pipelines.folders import evaluation_run, problem, sample, training_run

PROBLEMS = [problem(number) for number in range(4)]
ROWS = [sample(PROBLEMS[0]), *(sample(each, verdict="wrong") for each in PROBLEMS[1:])]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    evaluation_run(tmp_path / "complete", PROBLEMS, ROWS)
    evaluation_run(tmp_path / "killed", PROBLEMS, ROWS[:2], status=None)
    evaluation_run(tmp_path / "preempted", PROBLEMS, ROWS[:3], status="preempted")
    training_run(tmp_path / "grpo", steps=9, done=4, status=None)
    (tmp_path / "not-a-run").mkdir()
    for age, name in enumerate(("grpo", "complete", "killed", "preempted")):
        for file in (tmp_path / name).iterdir():
            os.utime(file, (2e9 - 100 * age, 2e9 - 100 * age))
    return tmp_path


def listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    assert main(["runs", str(folder), "--json"]) == 0
    return {run["name"]: run for run in json.loads(capsys.readouterr().out)["runs"]}


def test_every_run_is_listed_with_its_state(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = listed(runs, capsys)
    assert list(found) == ["grpo", "complete", "killed", "preempted"], "what changed last stands first"
    states = {name: (run["job"], run["status"], run["done"], run["planned"]) for name, run in found.items()}
    assert states == {
        "complete": ("eval", "complete", 4, 4),
        "killed": ("eval", "interrupted", 2, 4),
        "preempted": ("eval", "preempted", 3, 4),
        "grpo": ("grpo", "interrupted", 4, 9),
    }
    assert found["complete"]["accuracy"] == 0.25 and found["complete"]["interval_95"] == [0.1, 0.9]
    assert found["killed"]["accuracy"] == 0.5
    assert found["grpo"]["accuracy"] == pytest.approx(2 / 3)
    sizes = sum(file.stat().st_size for file in (runs / "grpo").rglob("*") if file.is_file())
    assert found["grpo"]["size_bytes"] == sizes


def test_a_run_is_running_while_its_lock_is_held(runs: Path) -> None:
    with open_run_folder(runs / "preempted"):
        assert read_run(runs / "preempted").status == "running"
    assert read_run(runs / "preempted").status == "preempted"


def test_a_summary_of_an_earlier_session_is_not_the_state_of_a_later_one(runs: Path) -> None:
    with (runs / "preempted" / "metrics.jsonl").open("a") as metrics:
        metrics.write('{"progress/done": 4, "progress/total": 4, "eval/accuracy": 0.5}\n{"torn')
    run = read_run(runs / "preempted")
    assert (run.status, run.done, run.accuracy, run.interval_95) == ("interrupted", 4, 0.5, None)


def test_a_report_does_not_make_a_run_younger(runs: Path) -> None:
    before = read_run(runs / "complete").changed
    (runs / "complete" / "report.html").write_text("later")
    assert read_run(runs / "complete").changed == before


def test_the_table_is_for_people(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", str(runs)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "JOB", "STATUS", "RESULT", "MODEL", "DATA", "CHANGED", "SIZE"]
    assert "interrupted, 4 of 9 steps" in lines[1]
    assert "25.0% ± 40.0" in lines[2]
    assert "50.0% so far" in lines[3]


def test_a_broken_run_is_named_and_the_others_listed(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "killed" / "manifest.json").write_text("{")
    assert main(["runs", str(runs), "--json"]) == 0
    told = capsys.readouterr()
    assert len(json.loads(told.out)["runs"]) == 3
    assert "killed/manifest.json: is not a manifest" in told.err


def test_folders_without_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", str(tmp_path)]) == 0
    assert "holds no runs" in capsys.readouterr().err
    assert main(["runs", str(tmp_path / "missing")]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_ages_and_sizes_are_short() -> None:
    assert [age_text(seconds) for seconds in (0, 50, 3600, 5 * 86400)] == [
        "now",
        "50 s ago",
        "60 min ago",
        "5 days ago",
    ]
    assert [size_text(size) for size in (0, 999, 1234, 999_999, 3_100_000)] == [
        "0 B",
        "999 B",
        "1.23 kB",
        "1 MB",
        "3.1 MB",
    ]
