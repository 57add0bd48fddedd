"""Supervised training by the real command: it learns, and a kill changes nothing."""

import json
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.end_to_end.command import Started, mathlete

pytestmark = pytest.mark.ray

STEPS = 12
TIMES = ("time", "time/")


@pytest.fixture(scope="module")
def words() -> list[str]:
    """A run from random weights in fp32: nothing but the learner."""
    return [
        "model=mathlete-tiny",
        "model.init=random",
        "model.device=cpu",
        "data.count=40",
        "distill.batch_size=6",
        f"distill.steps={STEPS}",
        "learner.cpus=1",
        "learner.compute_dtype=float32",
        "optimizer.lr=3e-3",
        "optimizer.decay=cosine",
        "optimizer.warmup_steps=3",
        "checkpoints.every=4",
        "cluster.object_store_mb=80",
    ]


def metrics(folder: Path) -> list[dict[str, float]]:
    """What each step reported, without what a clock says."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if not name.startswith(TIMES)} for row in rows]


def test_a_killed_run_ends_with_bit_for_bit_the_same_weights_and_metrics(words: list[str], tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    done = mathlete(*words, f"run.dir={whole}", job="distill")
    assert done.code == 0, done.err

    first = Started(broken, *words, job="distill")
    first.wait_until(lambda: (broken / "metrics.jsonl").exists() and len(metrics(broken)) >= 6)
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    second = Started(broken, *words, job="distill")
    assert second.finish() == 0, second.output()
    assert "going on from step_0000" in second.output()

    last = f"checkpoints/step_{STEPS:06d}"
    for file in ("model.safetensors", "trainer.safetensors"):
        expected, found = load_file(whole / last / file), load_file(broken / last / file)
        # The generator's state is each process's own: nothing here draws from it.
        assert all(torch.equal(found[name], value) for name, value in expected.items() if name != "random/cpu")
    assert metrics(whole) == metrics(broken)
    assert [row["step"] for row in metrics(broken)] == list(range(1, STEPS + 1))
    assert metrics(whole)[-1]["loss/supervised"] < metrics(whole)[0]["loss/supervised"]


def test_a_model_learns_the_correct_completions_of_its_own_run_with_itself_as_teacher(tmp_path: Path) -> None:
    run, tuned = tmp_path / "run", tmp_path / "tuned"
    small = ["model=mathlete-tiny", "model.dtype=float32", "model.device=cpu", "cluster.object_store_mb=80"]
    problems = ["data=builtin:arithmetic", "data.split=train", "data.levels=[1,5]", "data.count=40"]
    generated = mathlete(*small, *problems, "sampling.max_new_tokens=128", f"run.dir={run}", "--json")
    assert generated.code == 0, generated.err
    correct = generated.json["verdicts"]["correct"]
    assert 20 <= correct < 40

    learnt = mathlete(
        *small,
        "--from-run",
        str(run),
        "teacher=mathlete-tiny",
        "teacher.dtype=float32",
        "learner.compute_dtype=float32",
        "distill.batch_size=8",
        "distill.steps=2",
        "evaluation.every=2",
        "evaluation.data=builtin:arithmetic",
        "evaluation.data.levels=[1]",
        "evaluation.data.count=10",
        "evaluation.sampling.max_new_tokens=64",
        "learner.cpus=1",
        "generators.cpus_per_actor=1",
        f"run.dir={tuned}",
        "--json",
        job="distill",
    )
    assert learnt.code == 0, learnt.err
    assert f"{correct} of 40 completions are learnt" in learnt.err
    first, *_ = [row for row in metrics(tuned) if "loss/supervised" in row]
    assert first["loss/teacher_kl"] == pytest.approx(0, abs=1e-5), "a model has nothing to learn from itself"
    assert 0 < first["loss/supervised"] < 0.2, "it finds likely what it wrote"
    assert [found["step"] for found in learnt.json["evaluations"]] == [0, 2]
    assert learnt.json["evaluations"][-1]["accuracy"] > 0.5
