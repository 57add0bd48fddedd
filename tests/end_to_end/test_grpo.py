"""Training with the real command: it learns, and whatever is killed, it ends with the same weights."""

import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.end_to_end.command import Started, mathlete
from tests.pipelines.tracking.run import curve, read_sessions

pytestmark = pytest.mark.ray

STEPS = 12


@pytest.fixture(scope="module")
def words(checkpoint: Path) -> list[str]:
    """A synchronous run in float32 on one core, with a reward that a random model can learn."""
    return [
        f"model={checkpoint}",
        "model.dtype=float32",
        "model.device=cpu",
        "data=builtin:arithmetic",
        "data.count=24",
        "data.levels=[1]",
        "sampling.max_new_tokens=24",
        "generators.cpus_per_actor=1",
        "learner.cpus=1",
        "learner.compute_dtype=float32",
        "reward.correct=0",
        "reward.function=tests.end_to_end.rewards:share_of_digits",
        "optimizer.lr=1e-2",
        f"grpo.steps={STEPS}",
        "grpo.problems_per_step=4",
        "grpo.num_generations=4",
        "checkpoints.every=5",
        "evaluation.every=6",
        "evaluation.data=builtin:arithmetic",
        "evaluation.data.count=6",
        "evaluation.sampling.max_new_tokens=8",
        "cluster.object_store_mb=80",
    ]


@pytest.fixture(scope="module")
def undisturbed(words: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    done = mathlete(*words, f"run.dir={folder}", "--json", job="grpo")
    assert done.code == 0, done.err
    assert (done.json["status"], done.json["done"]) == ("complete", STEPS)
    return folder


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "checkpoints" / f"step_{STEPS:06d}" / "model.safetensors")


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def assert_same_run(folder: Path, expected: Path) -> None:
    """Equal to the last bit of every weight, and every rollout and every step recorded once."""
    found, wanted = weights(folder), weights(expected)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    keys = [(row["step"], row["problem_id"], row["sample_index"]) for row in lines(folder, "rollouts.jsonl")]
    assert len(keys) == len(set(keys)) == STEPS * 16
    assert [row["step"] for row in lines(folder, "metrics.jsonl") if "time/step" in row] == list(range(1, STEPS + 1))
    assert [row["step"] for row in lines(folder, "evaluations.jsonl")] == [0, 6, 12]


def test_the_reward_of_a_tiny_model_rises(undisturbed: Path) -> None:
    rewards = [row["reward/mean"] for row in lines(undisturbed, "metrics.jsonl") if "reward/mean" in row]
    assert sum(rewards[-3:]) > 2 * sum(rewards[:3])


def test_rollouts_are_recorded_with_reward_version_verdict_and_advantage(undisturbed: Path) -> None:
    rollouts = lines(undisturbed, "rollouts.jsonl")
    assert {row["policy_version"] for row in rollouts if row["step"] == 3} == {3}
    assert all(row["reward"] is not None and row["verdict"] for row in rollouts)
    by_step = {row["step"]: row["advantages"] for row in lines(undisturbed, "advantages.jsonl")}
    for problem_id, advantages in by_step[4]:
        group = [row for row in rollouts if row["step"] == 3 and row["problem_id"] == problem_id]
        group.sort(key=lambda row: row["sample_index"])
        reward = torch.tensor([row["reward"] for row in group], dtype=torch.float64)
        expected = (reward - reward.mean()) / (reward.std() + 1e-4)
        torch.testing.assert_close(torch.tensor(advantages, dtype=torch.float64), expected)


def test_a_training_run_has_a_report_with_its_problems(undisturbed: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert mathlete(str(undisturbed), "--output", str(page), job="report").code == 0
    text = page.read_text()
    assert f"evaluation after {STEPS} steps" in text and f"rollouts of step {STEPS}" in text
    for name in ("problems.jsonl", "evaluations/problems.jsonl"):
        first = json.loads((undisturbed / name).read_text().splitlines()[0])
        assert json.dumps(first["problem"])[1:-1] in text


@pytest.mark.parametrize("victim", ["learner", "generator"])
def test_an_actor_killed_at_a_random_moment_changes_no_weight(
    words: list[str], undisturbed: Path, tmp_path: Path, victim: str
) -> None:
    moment = random.randint(3 * 16, 10 * 16)
    run = Started(tmp_path / "run", *words, "generators.num_actors=2", job="grpo", journal="rollouts.jsonl")
    run.wait_until(lambda: run.journal_lines() >= moment and run.pids(victim))
    os.kill(run.pids(victim)[0], signal.SIGKILL)
    assert run.finish() == 0, run.output()
    assert len(run.events("died")) == 1
    assert_same_run(tmp_path / "run", undisturbed)


def test_a_driver_that_is_stopped_and_then_killed_changes_no_weight(
    words: list[str], undisturbed: Path, tmp_path: Path
) -> None:
    """Its curves in W&B have every step once, over all three sessions."""
    words = [*words, "tracking.wandb=true"]
    run = Started(tmp_path / "run", *words, job="grpo", journal="rollouts.jsonl")
    run.wait_until(lambda: run.journal_lines() >= random.randint(16, 5 * 16))
    run.process.send_signal(signal.SIGTERM)
    assert run.finish(60) == 143, run.output()
    assert "to resume: mathlete grpo" in run.output()
    assert "Traceback" not in run.output()
    run = Started(tmp_path / "run", *words, job="grpo", journal="rollouts.jsonl")
    run.wait_until(lambda: run.journal_lines() >= random.randint(7 * 16, 11 * 16))
    run.process.send_signal(signal.SIGKILL)
    run.process.wait()
    again = mathlete(*words, f"run.dir={tmp_path / 'run'}", job="grpo")
    assert again.code == 0, again.err
    assert "going on from step_000005" in again.err or "going on from step_000010" in again.err
    assert_same_run(tmp_path / "run", undisturbed)
    assert "\r" not in again.err
    sessions = read_sessions(tmp_path / "run")
    assert len(sessions) == 3
    assert len({session.run_id for session in sessions}) == 1
    assert sessions[-1].exit_code == 0
    metrics = [row for row in lines(tmp_path / "run", "metrics.jsonl") if "time/step" in row]
    expected = [(row["step"], row["reward/mean"]) for row in metrics]
    assert curve(sessions, "reward/mean", "train/step") == expected
    assert [step for step, _ in curve(sessions, "eval/accuracy", "eval/step")] == [0, 6, 12]
    assert {"reward/*", "loss/*", "completions/*", "grad_norm", "lr"} <= set(sessions[0].axes)


def test_a_complete_run_prints_its_summary_again(words: list[str], undisturbed: Path) -> None:
    before = lines(undisturbed, "metrics.jsonl")
    again = mathlete(*words, f"run.dir={undisturbed}", "--json", job="grpo")
    assert (again.code, again.json["status"]) == (0, "complete")
    assert lines(undisturbed, "metrics.jsonl") == before


def test_recorded_rollouts_train_without_a_generator(words: list[str], undisturbed: Path, tmp_path: Path) -> None:
    recorded = [*words, f"grpo.rollouts_from={undisturbed}", "evaluation.every=0", f"run.dir={tmp_path / 'run'}"]
    done = mathlete(*recorded, job="grpo")
    assert done.code == 0, done.err
    assert "0 generator(s)" in done.err
    first, same = weights(undisturbed), weights(tmp_path / "run")
    assert max((first[name] - same[name]).abs().max().item() for name in first) < 1e-2
    refused = mathlete(
        *words, f"grpo.rollouts_from={undisturbed}", "grpo.steps=99", f"run.dir={tmp_path / 'b'}", job="grpo"
    )
    assert refused.code == 2
    assert "holds the rollouts of 12 steps" in refused.err
