"""A whole evaluation with the real command, a real Ray and a real (tiny) model."""

import json
from pathlib import Path

import pytest

from tests.end_to_end.command import SAMPLED, mathlete, read_samples, texts

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def run(settings: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undisturbed run."""
    folder = tmp_path_factory.mktemp("run") / "greedy"
    done = mathlete(*settings, f"run.dir={folder}")
    assert done.code == 0, done.err
    assert "all  " in done.out
    assert f"run folder: {folder} (complete)" in done.out
    assert "\r" not in done.err
    progress = [line for line in done.err.splitlines() if "/40 samples" in line]
    assert 1 <= len(progress) <= 1 + done.seconds / 10
    return folder


def test_every_problem_has_one_sample_with_verdict_and_provenance(run: Path) -> None:
    rows = read_samples(run)
    assert len(texts(run)) == 40
    assert {row["verdict"] for row in rows} <= {"correct", "wrong", "unparsed"}
    assert all(row["finish_reason"] in ("eos", "length") and row["actor"] == "generator-0" for row in rows)
    assert all(0 < row["first_token_s"] <= row["seconds"] and row["policy_version"] == 0 for row in rows)
    summary = json.loads((run / "summary.json").read_text())
    assert summary["n"] == summary["planned"] == 40
    assert sum(summary["verdicts"].values()) == 40
    assert sum(cell["n"] for cell in summary["by_subject"].values()) == 40
    assert summary["throughput"]["tokens"] == sum(row["num_tokens"] for row in rows)
    assert summary["provenance"]["versions"]["torch"]
    assert json.loads((run / "manifest.json").read_text())["identity"]["sampling.max_new_tokens"] == 200
    assert (run / "metrics.jsonl").read_text().count("\n") >= 5


def test_the_same_command_on_a_complete_run_shows_its_result_and_starts_nothing(run: Path, settings: list[str]) -> None:
    before = (run / "samples.jsonl").read_bytes()
    done = mathlete(*settings, f"run.dir={run}", "--json")
    assert done.code == 0
    assert done.json["n"] == 40
    assert done.json["status"] == "complete"
    assert done.json["throughput"]["samples"] == 40
    assert "generator" not in done.err
    assert (run / "samples.jsonl").read_bytes() == before


def test_a_run_is_listed_reported_and_compared_from_its_folder(run: Path, tmp_path: Path) -> None:
    listed = mathlete(str(run.parent), "--json", job="runs").json["runs"]
    assert [(each["name"], each["status"], each["done"]) for each in listed] == [("greedy", "complete", 40)]
    page = tmp_path / "report.html"
    assert mathlete(str(run), "--output", str(page), job="report").code == 0
    problems = [json.loads(line) for line in (run / "problems.jsonl").read_text().splitlines()]
    assert len(problems) == 40
    assert json.dumps(problems[7]["problem"])[1:-1].replace("<", "\\u003c").replace(">", "\\u003e") in page.read_text()
    with_itself = mathlete(str(run), str(run), "--json", job="compare").json
    assert (with_itself["difference"], with_itself["p_value"], with_itself["problems"]) == (0.0, 1.0, 40)


def test_a_saved_configuration_is_the_same_run(run: Path) -> None:
    done = mathlete("--config", str(run / "config.yaml"), f"run.dir={run}", "--json")
    assert (done.code, done.json["n"]) == (0, 40)


def test_settings_of_another_run_are_refused_with_their_difference(run: Path, settings: list[str]) -> None:
    done = mathlete(*settings, f"run.dir={run}", "sampling.seed=5")
    assert done.code == 2
    assert "sampling.seed: 0 there, 5 now" in done.err
    assert "Traceback" not in done.err


def test_lost_lines_are_made_again_and_equal_the_old_ones(run: Path, settings: list[str], tmp_path: Path) -> None:
    """Holes in the middle and a torn end, two actors instead of one, other units: the same texts in fp32."""
    whole = texts(run)
    folder = tmp_path / "holes"
    folder.mkdir()
    lines = (run / "samples.jsonl").read_bytes().splitlines(keepends=True)
    kept = [line for number, line in enumerate(lines) if number % 3]
    (folder / "samples.jsonl").write_bytes(b"".join(kept) + lines[0][:100])
    (folder / "manifest.json").write_bytes((run / "manifest.json").read_bytes())
    done = mathlete(
        *settings,
        f"run.dir={folder}",
        "generators.num_actors=2",
        "generation.batch_size=5",
    )
    assert done.code == 0, done.err
    assert "cut off in the middle" in done.err
    assert texts(folder) == whole
    assert json.loads((folder / "summary.json").read_text())["throughput"]["samples"] == 40 - len(kept)


def test_sampled_texts_do_not_depend_on_actors_or_batches(settings: list[str], tmp_path: Path) -> None:
    sampled = [*settings, *SAMPLED, "sampling.top_p=0.95", "data.limit=20"]
    one = mathlete(*sampled, f"run.dir={tmp_path / 'one'}")
    two = mathlete(
        *sampled,
        f"run.dir={tmp_path / 'two'}",
        "generators.num_actors=2",
        "generation.batch_size=7",
    )
    assert (one.code, two.code) == (0, 0), one.err + two.err
    assert texts(tmp_path / "one") == texts(tmp_path / "two")
    assert len(set(texts(tmp_path / "one").values())) > 15
