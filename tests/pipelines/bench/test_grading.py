"""Grading rows: the same pairs for both sides, whoever is missing is named, and verdicts are counted for what they are."""

import importlib
import json
import subprocess
import sys
import types
from pathlib import Path

import pytest

from pipelines.bench.child import run_child
from pipelines.bench.grading import ROWS, GradingRun, Pair, Supply, read_pairs
from pipelines.bench.rounds import Trial
from pipelines.config import ConfigError

CASES = [Pair(r"\frac12", "0.5", True), Pair("3", "4", False), Pair("(x+1)^2", "x^2+2x+1", True)]
HOSTILE = [Pair(r"10^{10^{10}}", "10", None)]
SUPPLY = Supply(["7", r"\frac{1}{2}"], CASES, HOSTILE, Path("mv/bin/python"), "0.9", passes=3)


def made(name: str, supply: Supply = SUPPLY) -> Trial:
    return ROWS[name].make(ROWS[name], supply)


@pytest.mark.parametrize("name", ["cases", "golds", "two-workers"])
def test_both_sides_of_a_row_get_the_same_pairs(name: str) -> None:
    ours, peer = made(name).entrants
    assert ours.spec["pairs"] == peer.spec["pairs"]


def test_no_pair_of_the_pool_is_the_same_as_another() -> None:
    pairs = [tuple(pair) for pair in made("two-workers").entrants[0].spec["pairs"]]
    assert len(set(pairs)) == len(pairs) == 3 * len(CASES)


def test_every_tenth_pair_is_followed_by_a_hostile_one_which_does_not_count() -> None:
    supply = Supply([], CASES, HOSTILE, None, None, passes=10)
    mixed, alone = made("hostile", supply).entrants
    harmful = [place for place, pair in enumerate(mixed.spec["pairs"]) if pair == HOSTILE[0].texts]
    assert harmful == [10, 21, 32]
    assert [pair for pair in mixed.spec["pairs"] if pair != HOSTILE[0].texts] == alone.spec["pairs"]
    run = mixed.read({"correct": [True] * 33, "seconds": 1.0})
    assert isinstance(run, GradingRun)
    assert (run.pairs, run.right, run.false_positives) == (30, 20, 10)


def test_what_is_missing_is_named_with_what_to_do() -> None:
    elsewhere = Supply([], CASES, None, Path("mv/bin/python"), None, passes=1)
    nobody = Supply([], None, None, None, None, passes=1)
    assert "--hostile FILE" in (made("hostile", elsewhere).missing or "")
    for name in ("cases", "two-workers"):
        assert "--cases FILE" in (made(name, nobody).missing or "")
    assert "math-verify" in (made("golds", nobody).missing or "")
    assert "mv/bin/python -m pip install" in (made("cases", elsewhere).missing or "")


def test_verdicts_are_counted_by_the_way_in_which_they_are_wrong() -> None:
    run = GradingRun.read(CASES, {"correct": [False, True, True], "seconds": 2.0})
    assert (run.right, run.false_positives, run.false_negatives, run.pairs_per_s) == (1, 1, 1, 1.5)
    trial = made("cases")
    (found,) = trial.judge([[run], [GradingRun.read(CASES, {"correct": [True, False, True], "seconds": 20.0})]])
    assert found.ratio == pytest.approx(10)
    assert found.held
    assert [note.split(":")[0] for note in found.notes] == ["ours", "Math-Verify"]
    assert "1 wrongly accepted" in found.notes[0]


def test_our_child_gives_the_graders_verdicts(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(json.dumps(made("cases").entrants[0].spec))
    ours = made("cases").entrants[0]
    run = ours.read(run_child(ours.command(tmp_path / "spec.json"), 120))
    assert isinstance(run, GradingRun)
    assert (run.pairs, run.right) == (3, 3)


@pytest.mark.ray
def test_the_pool_gives_every_verdict_in_order(tmp_path: Path) -> None:
    pool = made("two-workers").entrants[0]
    assert pool.spec["workers"] == 2
    (tmp_path / "spec.json").write_text(json.dumps(pool.spec))
    found = run_child(pool.command(tmp_path / "spec.json"), 240)
    assert found["correct"] == [True, False, True] * 3
    assert found["seconds"] > 0


def test_the_peer_gets_marked_mathematics_and_what_it_raises_is_not_correct(monkeypatch: pytest.MonkeyPatch) -> None:
    def verify(gold: str, answer: str) -> bool:
        if "boom" in answer:
            raise RuntimeError
        return gold == "$1$" and answer == r"\boxed{1}"

    stub = types.ModuleType("math_verify")
    stub.__dict__.update(parse=lambda text: text, verify=verify)
    monkeypatch.setitem(sys.modules, "math_verify", stub)
    child = importlib.import_module("pipelines.bench.children.math_verify_grade")
    monkeypatch.delitem(sys.modules, child.__name__)
    assert child.measure({"pairs": [[r"\boxed{1}", "1"], [r"\boxed{2}", "1"], ["boom", "1"]]})["correct"] == [
        True,
        False,
        False,
    ]


def test_disputed_cases_are_left_out_and_a_line_that_is_no_pair_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    rows = [{"pred": "1", "gold": "1", "equal": True}, {"pred": "1", "gold": "2", "equal": True, "disputed": True}]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    assert read_pairs(path) == [Pair("1", "1", True)]
    for line in ("{", "[]", '{"pred": "1"}'):
        path.write_text(f"{json.dumps(rows[0])}\n{line}")
        with pytest.raises(ConfigError, match=r"cases\.jsonl, line 2"):
            read_pairs(path)


def test_the_command_names_what_is_missing_and_refuses_a_file_that_is_not_there(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pipelines", "bench", "peers", "grading", "--data", "builtin:mini", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [row["name"] for row in document["rows"]] == list(ROWS)
    assert all(row["missing"] for row in document["rows"])
    done = subprocess.run([*command, "--cases", "none.jsonl"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "none.jsonl: no such file" in done.stderr
