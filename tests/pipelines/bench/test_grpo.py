"""Training steps against their peers."""

import json
import sys
from pathlib import Path

import pytest

from pipelines.bench.child import run_child
from pipelines.bench.grpo import GENERATIONS, NEW_TOKENS, PROBLEMS, ROWS, Steps, TrainingRun, sums
from tests.actors.engine.tiny import save_checkpoint


def steps(**fields: object) -> Steps:
    values = {"model": "m", "folder": "f", "steps": 1, "threads": 1, "trl_python": None, "trl": None, **fields}
    return Steps(**values)


def test_a_missing_peer_is_named_with_what_to_do() -> None:
    assert "pip install trl" in (ROWS["step"].make(ROWS["step"], steps()).missing or "")
    there = ROWS["step"].make(ROWS["step"], steps(trl_python=Path("/bin/python"), trl="1.0"))
    assert (there.missing, [entrant.label for entrant in there.entrants]) == (None, ["ours", "TRL"])


def test_a_run_is_the_median_of_its_steps() -> None:
    found = [{"seconds": s, "phases": {"generate": s / 2}, "tokens": 10 * s} for s in (3.0, 1.0, 2.0)]
    run = TrainingRun.read({"steps": found})
    assert (run.seconds, run.phases, run.rollout_tokens_per_s) == (2.0, {"generate": 1.0}, 20.0)


def test_problems_are_different_and_right() -> None:
    rows = sums(64)
    assert len({row["problem"] for row in rows}) == 64
    assert all(eval(row["problem"].split()[2].rstrip("?")) == int(row["answer"]) for row in rows)


@pytest.mark.ray
def test_ours_reports_each_step_with_its_phases(tmp_path: Path) -> None:
    folder = save_checkpoint(tmp_path / "tiny")
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps(steps(model=str(folder), steps=2).spec()))
    found = run_child([sys.executable, "-m", "pipelines.bench.children.ours_grpo", str(spec)], 240)
    assert len(found["steps"]) == 2
    for step in found["steps"]:
        assert 0 < sum(step["phases"].values()) <= step["seconds"]
        assert 0 < step["tokens"] <= PROBLEMS * GENERATIONS * NEW_TOKENS
