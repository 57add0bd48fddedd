"""Several samples of each problem with the real command: a run that grows, that is killed, and what it finds."""

import json
import os
import signal
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from pipelines.metrics.pass_at_k import pass_at_k
from tests.end_to_end.command import SAMPLED, Started, mathlete, read_samples, texts

pytestmark = pytest.mark.ray

PROBLEMS, FEW, MANY = 10, 3, 8


@pytest.fixture(scope="module")
def words(settings: list[str], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Problems whose answers are numbers that a model may say by chance."""
    file = tmp_path_factory.mktemp("problems") / "digits.jsonl"
    rows = [{"unique_id": f"p{n}", "problem": f"What is {n} - 0?", "answer": str(n)} for n in range(PROBLEMS)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [*settings, *SAMPLED, f"data={file}", "generation.batch_size=16"]


@pytest.fixture(scope="module")
def at_once(words: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A run that made all samples in one go, and its summary."""
    folder = tmp_path_factory.mktemp("samples") / "at-once"
    done = mathlete(*words, f"sampling.n={MANY}", f"run.dir={folder}")
    assert done.code == 0, done.err
    assert f"{MANY} samples per problem" in done.out
    return folder, json.loads((folder / "summary.json").read_text())


def test_every_problem_has_its_samples_and_the_summary_is_of_all_of_them(at_once: tuple[Path, dict[str, Any]]) -> None:
    folder, summary = at_once
    rows = read_samples(folder)
    assert {row["sample_index"] for row in rows} == set(range(MANY))
    assert len(set(texts(folder).values())) > PROBLEMS * MANY / 2
    assert summary["n"] == summary["planned"] == PROBLEMS * MANY
    right = dict.fromkeys({row["problem_id"] for row in rows}, 0)
    for row in rows:
        right[row["problem_id"]] += row["verdict"] == "correct"
    for k in (1, 2, 4, 8):
        expected = mean(pass_at_k(MANY, correct, k) or 0 for correct in right.values())
        assert summary["pass_at"][str(k)]["value"] == pytest.approx(expected)
    assert summary["maj_at"]["1"]["value"] == pytest.approx(summary["accuracy"])
    votes = [json.loads(line) for line in (folder / "votes.jsonl").read_text().splitlines()]
    assert {vote["problem_id"] for vote in votes} == set(right)
    assert summary["votes"]["cast"] == sum(len(members) for vote in votes for members in vote["classes"])
    # A problem's prompt is computed once: most of what the others need of it is shared.
    assert summary["throughput"]["prefix_tokens_shared"] > 0


def test_a_complete_run_shows_other_ks_from_its_votes_and_starts_nothing(
    at_once: tuple[Path, dict[str, Any]], words: list[str]
) -> None:
    folder, _ = at_once
    before = {name: (folder / name).read_bytes() for name in ("samples.jsonl", "votes.jsonl")}
    done = mathlete(*words, f"sampling.n={MANY}", f"run.dir={folder}", "metrics.pass_at=[3, 5]", "--json")
    assert done.code == 0, done.err
    assert list(done.json["maj_at"]) == list(done.json["pass_at"]) == ["3", "5"]
    assert "votes" not in done.err and "generator" not in done.err
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_a_run_grows_to_what_it_would_have_been_and_does_not_shrink(
    at_once: tuple[Path, dict[str, Any]], words: list[str], tmp_path: Path
) -> None:
    whole, expected = at_once
    folder = tmp_path / "grown"
    few = mathlete(*words, f"sampling.n={FEW}", f"run.dir={folder}", "--json")
    assert (few.code, few.json["n"]) == (0, PROBLEMS * FEW), few.err
    recorded = (folder / "samples.jsonl").read_bytes()

    # Killed while it grows, and ended with other units.
    first = Started(folder, *words, f"sampling.n={MANY}", "generation.batch_size=2")
    first.wait_until(lambda: first.journal_lines() >= PROBLEMS * FEW + 4)
    os.killpg(first.process.pid, signal.SIGKILL)
    first.process.wait()
    many = mathlete(*words, f"sampling.n={MANY}", f"run.dir={folder}", "--json")
    assert many.code == 0, many.err
    assert (folder / "samples.jsonl").read_bytes().startswith(recorded)
    assert texts(folder) == texts(whole)
    for key in ("pass_at", "maj_at", "agreement", "votes", "interval_95", "verdicts"):
        assert many.json[key] == expected[key]

    fewer = mathlete(*words, f"sampling.n={FEW}", f"run.dir={folder}")
    assert fewer.code == 2
    assert f"sampling.n: {MANY} there, {FEW} now" in fewer.err
    assert "Traceback" not in fewer.err


def test_several_samples_of_a_greedy_run_are_refused(settings: list[str], tmp_path: Path) -> None:
    done = mathlete(*settings, "sampling.n=8", f"run.dir={tmp_path / 'run'}")
    assert done.code == 2
    assert "sampling.n: more than one sample needs a temperature above 0" in done.err
    assert "Traceback" not in done.err
