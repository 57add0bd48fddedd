import json
import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from actors.learning import checkpoint
from actors.learning.checkpoint import CheckpointError, Checkpoints, load_checkpoint
from actors.learning.learner import Learner
from actors.learning.settings import LearnerSettings, LossSettings, OptimizerSettings
from actors.models import ModelSpec, load_model
from tests.actors.engine.tiny import tiny_tokenizer
from tests.actors.learning.cases import own_learner, random_groups
from tests.actors.learning.test_supervised import examples

OPTIMIZER = OptimizerSettings(lr=1e-3, weight_decay=0.1, warmup_steps=3, decay="cosine", total_steps=9)
SETTINGS = LearnerSettings(
    compute_dtype="float32", loss=LossSettings(beta=0.1), optimizer=OPTIMIZER, num_iterations=2, token_budget=60
)
STEPS: dict[str, Callable[[Learner, int], dict[str, float]]] = {
    "rollouts": lambda learner, number: learner.step(random_groups(seed=number, version=learner.policy_version)),
    "examples": lambda learner, number: learner.supervised_step(examples(count=2 + number)),
}


def new_learner(architecture: str = "llama") -> Learner:
    return own_learner(SETTINGS, architecture)


def saved(folder: Path, learner: Learner, **options: Any) -> Path:
    return Checkpoints(folder).save(learner, tiny_tokenizer(), {"cursor": 17, "wandb": "abc"}, **options).path


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_saving_and_loading_between_steps_changes_not_one_bit(kind: str, architecture: str, tmp_path: Path) -> None:
    step = STEPS[kind]
    undisturbed = new_learner(architecture)
    reported = [step(undisturbed, number) for number in range(5)]

    first = new_learner(architecture)
    for number in range(2):
        step(first, number)
    path = saved(tmp_path, first)
    torch.rand(3)  # the resuming process has drawn other random numbers
    resumed = new_learner(architecture)
    assert load_checkpoint(path, resumed) == {"cursor": 17, "wandb": "abc"}
    assert (resumed.step_count, resumed.policy_version) == (2, 2)
    for number in range(2, 5):
        metrics = step(resumed, number)
        assert metrics | {"time/update": 0} == reported[number] | {"time/update": 0}
    for name, weight in undisturbed.policy.trained().items():
        assert torch.equal(weight, resumed.policy.trained()[name]), name


def test_a_checkpoint_restores_the_random_state(tmp_path: Path) -> None:
    learner = new_learner()
    path = saved(tmp_path, learner)
    expected = torch.rand(4)
    torch.rand(100)
    load_checkpoint(path, learner)
    assert torch.equal(torch.rand(4), expected)


def test_loading_replaces_a_learner_that_has_already_stepped(tmp_path: Path) -> None:
    fresh = new_learner()
    path = saved(tmp_path, fresh)
    used = new_learner()
    STEPS["rollouts"](used, 0)
    load_checkpoint(path, used)
    for learner in (fresh, used):
        STEPS["rollouts"](learner, 1)
    for name, weight in fresh.policy.trained().items():
        assert torch.equal(weight, used.policy.trained()[name]), name


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "gemma3_window_8", "falcon", "bloom"])
def test_a_checkpoint_is_a_model_that_generators_load(architecture: str, tmp_path: Path) -> None:
    learner = new_learner(architecture)
    STEPS["rollouts"](learner, 0)
    loaded = load_model(ModelSpec(str(saved(tmp_path, learner)), dtype="float32", device="cpu"))
    own = dict(loaded.model.named_parameters(remove_duplicate=False))
    for name, weight in learner.weights(torch.float32):
        assert torch.equal(weight, own[name]), name
    assert loaded.tokenizer.get_vocab() == tiny_tokenizer().get_vocab()


def test_the_last_and_the_best_are_kept(tmp_path: Path) -> None:
    learner = new_learner()
    kept = Checkpoints(tmp_path, keep_last=2)
    for step, score in enumerate([0.1, 0.9, 0.5, float("nan"), 0.3], start=1):
        learner.step_count = step
        kept.save(learner, tiny_tokenizer(), {}, score=score)
    assert [found.step for found in kept.complete()] == [2, 4, 5]
    latest, best = kept.latest(), kept.best()
    assert latest is not None and latest.step == 5
    assert best is not None and (best.step, best.score) == (2, 0.9)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_000002", "step_000004", "step_000005"]


def test_a_step_saved_again_replaces_the_first(tmp_path: Path) -> None:
    learner = new_learner()
    kept = Checkpoints(tmp_path)
    kept.save(learner, tiny_tokenizer(), {"cursor": 1})
    again = kept.save(learner, tiny_tokenizer(), {"cursor": 2})
    assert load_checkpoint(again.path, learner) == {"cursor": 2}
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("file", ["model.safetensors", "trainer.safetensors", "checkpoint.json", "config.json"])
@pytest.mark.parametrize("damage", ["missing", "short"])
def test_a_torn_checkpoint_is_passed_over_named_and_never_loaded(file: str, damage: str, tmp_path: Path) -> None:
    learner = new_learner()
    kept = Checkpoints(tmp_path)
    whole = kept.save(learner, tiny_tokenizer(), {})
    learner.step_count = 7
    torn = kept.save(learner, tiny_tokenizer(), {}).path
    content = (torn / file).read_bytes()
    (torn / file).unlink() if damage == "missing" else (torn / file).write_bytes(content[: len(content) // 2])
    latest = kept.latest()
    assert latest is not None and latest.path == whole.path
    assert len(kept.torn()) == 1 and "step_000007 is torn" in kept.torn()[0]
    with pytest.raises(CheckpointError, match="is torn"):
        load_checkpoint(torn, learner)


def _save_and_die(folder: Path, after: str) -> None:
    """Save once, then die as by SIGKILL while saving again, right before the call named `after`, or halfway through
    deleting a folder."""

    def die(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def delete_half(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        die()

    torch.set_num_threads(1)
    learner = new_learner()
    kept = Checkpoints(folder, keep_last=1)
    kept.save(learner, tiny_tokenizer(), {"cursor": 1})
    learner.step_count = 1
    if after == "rename":
        Path.rename = die  # type: ignore[method-assign, assignment]
    elif after == "rmtree":
        checkpoint.shutil.rmtree = delete_half  # type: ignore[attr-defined, assignment]
    else:
        setattr(checkpoint, after, die)
    kept.save(learner, tiny_tokenizer(), {"cursor": 2})


@pytest.mark.parametrize(
    ("moment", "left"), [("save_file", 0), ("_sync", 0), ("rename", 0), ("_read", 1), ("rmtree", 1)]
)
def test_a_kill_at_any_moment_of_saving_leaves_a_whole_checkpoint(moment: str, left: int, tmp_path: Path) -> None:
    child = multiprocessing.get_context("fork").Process(target=_save_and_die, args=(tmp_path, moment))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    kept = Checkpoints(tmp_path, keep_last=1)
    latest = kept.latest()
    assert latest is not None and latest.step == left
    assert kept.torn() == []
    assert load_checkpoint(latest.path, new_learner()) == {"cursor": left + 1}
    learner = new_learner()
    learner.step_count = 2
    kept.save(learner, tiny_tokenizer(), {})
    assert [path.name for path in tmp_path.iterdir()] == ["step_000002"], "what the dead process left is gone"


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, new_learner("llama"))
    with pytest.raises(CheckpointError, match="resume with the model"):
        load_checkpoint(path, new_learner("gpt2"))


def test_state_that_json_cannot_hold_is_refused_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path)
    with pytest.raises(TypeError):
        kept.save(new_learner(), tiny_tokenizer(), {"cursor": object()})
    assert kept.complete() == [] and kept.torn() == []


def test_the_manifest_names_every_file(tmp_path: Path) -> None:
    path = saved(tmp_path, new_learner())
    manifest = json.loads((path / "checkpoint.json").read_text(encoding="utf-8"))
    assert set(manifest["files"]) | {"checkpoint.json"} == {file.name for file in path.iterdir()}


def test_keeping_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing to resume from"):
        Checkpoints(tmp_path, keep_last=0)
