"""Comparing runs: pairs of the same problems only, the right test, flips in both directions."""

import json
import random
from pathlib import Path

import pytest

from pipelines.cli import main
from pipelines.compare.findings import OtherData, compare
from pipelines.compare.sides import read_side
from pipelines.metrics.paired import mcnemar_exact, sign_flip_test
from pipelines.problems import Problem
from tests.pipelines.folders import evaluation_run, problem, sample, training_run
from tests.pipelines.report.test_report import Page

PROBLEMS = [problem(number) for number in range(40)]
RANDOM = random.Random(3)
FIRST = [RANDOM.random() < 0.4 for _ in PROBLEMS]
SECOND = [RANDOM.random() < 0.7 for _ in PROBLEMS]


def verdict(right: bool) -> str:
    return "correct" if right else "wrong"


def run_of(folder: Path, rights: list[bool], problems: list[Problem] = PROBLEMS, **settings: object) -> Path:
    rows = [sample(each, verdict=verdict(right)) for each, right in zip(problems, rights, strict=True)]
    return evaluation_run(folder, problems, rows, **settings)  # type: ignore[arg-type]


@pytest.fixture
def two(tmp_path: Path) -> tuple[str, str]:
    first = run_of(tmp_path / "first", FIRST, **{"sampling.temperature": 0.0})
    return str(first), str(run_of(tmp_path / "second", SECOND, **{"sampling.temperature": 0.7}))


def test_single_samples_are_compared_by_mcnemar(two: tuple[str, str]) -> None:
    found = compare(*map(read_side, two))
    gained = sum(b and not a for a, b in zip(FIRST, SECOND, strict=True))
    lost = sum(a and not b for a, b in zip(FIRST, SECOND, strict=True))
    assert (found.all.gained, found.all.lost, found.all.problems) == (gained, lost, 40)
    assert found.test == "exact McNemar test" and found.p_value == mcnemar_exact(lost, gained)
    assert found.all.difference == pytest.approx((gained - lost) / 40)
    low, high = found.all.interval_95
    assert low < found.all.difference < high
    assert (
        sum(cell.problems for cell in found.by_subject.values())
        == sum(cell.problems for cell in found.by_level.values())
        == 40
    )
    assert found.settings == [("sampling.temperature", 0.0, 0.7)]
    changes = [pair.change for pair in found.flips]
    assert changes == ["lost"] * lost + ["gained"] * gained


def test_exchanging_the_runs_exchanges_the_result(two: tuple[str, str]) -> None:
    there, back = compare(*map(read_side, two)), compare(*map(read_side, reversed(two)))
    assert back.all.difference == pytest.approx(-there.all.difference)
    assert back.p_value == there.p_value
    assert (back.all.gained, back.all.lost) == (there.all.lost, there.all.gained)


def test_several_samples_are_compared_by_the_mean_of_each_problem(tmp_path: Path) -> None:
    shares = [[RANDOM.randrange(5) / 4 for _ in PROBLEMS] for _ in range(2)]
    for name, own in zip("ab", shares, strict=True):
        rows = [
            sample(each, index, verdict(index < 4 * share))
            for each, share in zip(PROBLEMS, own, strict=True)
            for index in range(4)
        ]
        evaluation_run(tmp_path / name, PROBLEMS, rows, n=4)
    found = compare(read_side(str(tmp_path / "a")), read_side(str(tmp_path / "b")))
    differences = [b - a for a, b in zip(*shares, strict=True)]
    assert found.test == "paired permutation test"
    assert found.p_value == sign_flip_test(differences)
    assert found.all.difference == pytest.approx(sum(differences) / 40)
    assert found.all.gained == sum(each > 0 for each in differences)


def test_other_data_is_refused_unless_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed = [*PROBLEMS[:20], *(problem(number, problem="Another text") for number in range(20, 40))]
    first = run_of(tmp_path / "a", FIRST)
    second = run_of(tmp_path / "b", SECOND, changed, fingerprint="other")
    assert main(["compare", str(first), str(second)]) == 2
    assert "40 and 40, of which 20 are the same. --allow-different-data" in capsys.readouterr().err
    assert main(["compare", str(first), str(second), "--allow-different-data", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["problems"] == 20
    assert [run["left_out"] for run in told["runs"]] == [20, 20]
    assert told["first"] == pytest.approx(sum(FIRST[:20]) / 20)


def test_problems_without_anything_in_common_are_refused_anyhow(tmp_path: Path) -> None:
    others = [problem(number) for number in range(100, 140)]
    first, second = run_of(tmp_path / "a", FIRST), run_of(tmp_path / "b", SECOND, others)
    with pytest.raises(OtherData, match="no problem in common"):
        compare(read_side(str(first)), read_side(str(second)), allow_different_data=True)


def test_an_unfinished_run_is_compared_over_what_it_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = run_of(tmp_path / "a", FIRST)
    rows = [sample(each, verdict="timeout") for each in PROBLEMS[:10]]
    second = evaluation_run(tmp_path / "b", PROBLEMS, rows, status=None)
    assert main(["compare", str(first), str(second)]) == 0
    out = capsys.readouterr().out
    assert "b is not finished: 10 of 40 samples" in out
    assert "30 problem(s) of a are left out" in out
    assert "10 sample(s) of b count as not correct for a fault" in out


def test_evaluations_of_one_training_run_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = training_run(tmp_path / "run")
    assert main(["compare", f"{run}@0", str(run), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["step"] for each in told["runs"]] == [0, 4]
    assert (told["gained"], told["lost"], told["problems"]) == (2, 0, 3)
    assert main(["compare", f"{run}@1", str(run)]) == 2
    assert "there are 0, 2, 4" in capsys.readouterr().err


def test_flips_are_listed_with_answers_and_the_page_has_the_completions(
    two: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *two, "--flips", "2", "--html", str(tmp_path / "c.html")]) == 0
    out = capsys.readouterr().out
    gained = sum(b and not a for a, b in zip(FIRST, SECOND, strict=True))
    assert f"B is better on {gained} problems, the first 2:" in out
    name = next(each for each, a, b in zip(PROBLEMS, FIRST, SECOND, strict=True) if b and not a)
    assert f"  {name.id}: x -> {name.answer}, right is {name.answer}" in out
    assert "  sampling.temperature: 0.0 -> 0.7" in out
    page = Page((tmp_path / "c.html").read_text())
    assert page.data["tags"] == ["lost", "gained", "same"]
    assert len(page.data["items"]) == 40
    item = next(each for each in page.data["items"] if page.data["problems"][each[0]][0] == name.id)
    assert [part[1] for part in item[4]] == ["wrong", "correct"]
    assert "Settings that differ" in page.text and "sampling.temperature" in page.text


@pytest.mark.parametrize("words", [["{a}", "nowhere"], ["{a}@3", "{a}"], ["{empty}", "{a}"]])
def test_mistakes_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    names = {"a": run_of(tmp_path / "a", FIRST), "empty": evaluation_run(tmp_path / "e", PROBLEMS, [], status=None)}
    assert main(["compare", *(word.format(**names) for word in words)]) == 2
    assert "error: " in capsys.readouterr().err
