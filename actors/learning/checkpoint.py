"""Checkpoints that are whole or absent, and that a run resumes from exactly.

A checkpoint is a folder that transformers and the generators load as a model: float32 weights, configuration and
tokenizer. Beside them lie `trainer.safetensors` (the optimiser's moments, random states, LoRA's adapters) and
`checkpoint.json` (counters, the caller's own state, and the size of every file).
"""

import json
import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from actors.learning.learner import Learner
from actors.models.update import copy_weights

MANIFEST = "checkpoint.json"
TRAINER = "trainer.safetensors"
UNFINISHED = ".unfinished-"
"""Folders of this prefix are being written or deleted, or were when their process died."""


class CheckpointError(Exception):
    """A checkpoint is torn, or does not belong to this learner."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    path: Path
    step: int
    score: float | None
    """The caller's measure of quality, higher is better; None where none was taken."""


class Checkpoints:
    """The checkpoints of one run: `step_000050` and so on in `folder`."""

    def __init__(self, folder: Path, keep_last: int = 2, keep_best: bool = True) -> None:
        if keep_last < 1:
            raise ValueError(f"keep_last must be at least 1, or there is nothing to resume from; got {keep_last}")
        self.folder = folder
        self._keep_last = keep_last
        self._keep_best = keep_best

    def save(
        self,
        learner: Learner,
        tokenizer: PreTrainedTokenizerBase,
        extra: Mapping[str, Any],
        score: float | None = None,
    ) -> Checkpoint:
        """Write a checkpoint, then delete those that are neither among the last nor the best.

        `extra` is the caller's own state, such as a data cursor or a tracker's run id: anything JSON can hold.
        Everything is on disk before the folder gets its name, so a kill or a power cut leaves the older ones.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for left in self.folder.glob(f"{UNFINISHED}*"):
            shutil.rmtree(left)
        path = self.folder / f"step_{learner.step_count:06d}"
        unfinished = self.folder / f"{UNFINISHED}{path.name}"
        unfinished.mkdir()
        _write(unfinished, learner, tokenizer, extra, score)
        if path.exists():
            self._remove(path)
        unfinished.rename(path)
        _sync(self.folder)
        self._prune()
        return _read(path)

    def complete(self) -> list[Checkpoint]:
        """All checkpoints that are whole, oldest first."""
        found = []
        for path in sorted(self.folder.glob("step_*")):
            try:
                found.append(_read(path))
            except CheckpointError:
                continue
        return sorted(found, key=lambda checkpoint: checkpoint.step)

    def torn(self) -> list[str]:
        """Why each of the others is not whole."""
        reasons = []
        for path in sorted(self.folder.glob("step_*")):
            try:
                _read(path)
            except CheckpointError as error:
                reasons.append(str(error))
        return reasons

    def latest(self) -> Checkpoint | None:
        """The one to resume from."""
        return max(self.complete(), key=lambda checkpoint: checkpoint.step, default=None)

    def best(self) -> Checkpoint | None:
        """The one of the highest score, the earliest among equals."""
        scored = [(checkpoint.score, checkpoint) for checkpoint in self.complete() if checkpoint.score is not None]
        return max(scored, key=lambda pair: pair[0], default=(0, None))[1]

    def _prune(self) -> None:
        complete = self.complete()
        kept = {checkpoint.path for checkpoint in complete[-self._keep_last :]}
        if self._keep_best and (best := self.best()):
            kept.add(best.path)
        for checkpoint in complete:
            if checkpoint.path not in kept:
                self._remove(checkpoint.path)

    def _remove(self, path: Path) -> None:
        """A folder loses its name before its files, so that a kill leaves no torn checkpoint."""
        doomed = path.rename(path.with_name(f"{UNFINISHED}old-{path.name}"))
        shutil.rmtree(doomed)


def load_checkpoint(path: Path, learner: Learner) -> dict[str, Any]:
    """Bring `learner`, made from the model that training began with, to the state that was saved; return the
    caller's own state.

    Raises CheckpointError for a torn checkpoint and for one of another model or another choice of LoRA.
    """
    _read(path)
    manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    state = load_file(path / TRAINER)
    trained = learner.policy.trained()
    if manifest["trained"] != sorted(trained):
        raise CheckpointError(
            f"{path} holds the state of {len(manifest['trained'])} trained tensors, this learner trains {len(trained)} "
            "others: resume with the model and the LoRA settings that the run began with"
        )
    base = learner.policy.base
    if learner.settings.lora:
        weights = {name: state[f"weights/{name}"] for name in trained}
    else:
        saved = type(base).from_pretrained(path, dtype=torch.float32)
        weights = {name: weight for name, weight in saved.named_parameters() if name in trained}
    try:
        copy_weights(base, weights)
    except ValueError as error:
        raise CheckpointError(f"{path} does not fit this model: {error}") from error
    learner.optimizer.state.clear()
    for name, parameter in trained.items():
        moments = {
            slot: state[f"{slot}/{name}"] for slot in ("step", "exp_avg", "exp_avg_sq") if f"{slot}/{name}" in state
        }
        if moments:
            learner.optimizer.state[parameter] = {slot: value.to(parameter.device) for slot, value in moments.items()}
    torch.set_rng_state(state["random/cpu"])
    if learner.policy.device.type == "cuda" and "random/cuda" in state:
        torch.cuda.set_rng_state(state["random/cuda"], learner.policy.device)
    learner.step_count = manifest["step"]
    learner.policy_version = manifest["policy_version"]
    return manifest["extra"]


def _write(
    folder: Path, learner: Learner, tokenizer: PreTrainedTokenizerBase, extra: Mapping[str, Any], score: float | None
) -> None:
    trained = learner.policy.trained()
    merged = dict(learner.weights(torch.float32)) if learner.settings.lora else None
    learner.policy.base.save_pretrained(folder, state_dict=merged)
    tokenizer.save_pretrained(folder)
    save_file(_trainer_state(learner, trained), folder / TRAINER)
    manifest = {
        "step": learner.step_count,
        "policy_version": learner.policy_version,
        "score": score if score is not None and math.isfinite(score) else None,
        "trained": sorted(trained),
        "extra": dict(extra),
        "files": {file.name: file.stat().st_size for file in sorted(folder.iterdir())},
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    for file in folder.iterdir():
        _sync(file)
    _sync(folder)


def _trainer_state(learner: Learner, trained: Mapping[str, torch.nn.Parameter]) -> dict[str, Tensor]:
    state = {"random/cpu": torch.get_rng_state()}
    if learner.policy.device.type == "cuda":
        state["random/cuda"] = torch.cuda.get_rng_state(learner.policy.device)
    for name, parameter in trained.items():
        state |= {f"{slot}/{name}": value for slot, value in learner.optimizer.state.get(parameter, {}).items()}
        if learner.settings.lora:
            state[f"weights/{name}"] = parameter.detach()
    return {name: value.contiguous() for name, value in state.items()}


def _read(path: Path) -> Checkpoint:
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        sizes = {name: (path / name).stat().st_size for name in manifest["files"]}
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{path} is torn: {error}") from error
    wrong = [name for name, size in manifest["files"].items() if sizes[name] != size]
    if wrong:
        raise CheckpointError(f"{path} is torn: {', '.join(wrong)} does not have the size that was written")
    return Checkpoint(path, manifest["step"], manifest["score"])


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
