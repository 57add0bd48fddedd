"""The policy in training, with its optimiser and its checkpoints, on one device."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray

from actors.host import host_memory
from actors.learning import Example, LearnerSettings, RolloutGroup
from actors.models import ModelSpec
from actors.resources import Placement, read_placement

if TYPE_CHECKING:
    from actors.learning.checkpoint import Checkpoints
    from actors.learning.learner import Learner


class LearnerBroken(RuntimeError):
    """The learner cannot start or go on; the text says what to do."""


@dataclass(frozen=True, slots=True)
class TeacherSpec:
    """A model whose `top_k` most probable tokens supervised steps learn beside the solutions. It has the tokenizer of the
    model in training."""

    model: ModelSpec
    top_k: int


@dataclass(frozen=True, slots=True)
class LearnerSpec:
    """What a learner holds, where it keeps checkpoints, and what Ray promised it."""

    model: ModelSpec
    """The model that training begins with, also when it is resumed: the reference policy is made of it."""
    settings: LearnerSettings
    run_folder: str
    """Absolute; on storage that the driver's machine and the learner's share."""
    keep_last: int
    keep_best: bool
    num_cpus: int
    num_gpus: float
    teacher: TeacherSpec | None = None

    @property
    def checkpoints(self) -> Path:
        return Path(self.run_folder) / "checkpoints"


@dataclass(frozen=True, slots=True)
class LearnerReport:
    """What a learner got, and how far the checkpoint is that it starts from. Memory in bytes."""

    placement: Placement
    device: str
    device_name: str
    compute_dtype: str
    threads: int
    trained_parameters: int
    parameters: int
    memory_total: int
    memory_free: int
    load_seconds: float
    step: int
    """Steps done."""
    policy_version: int
    checkpoint: str | None
    torn: tuple[str, ...]
    """Why each checkpoint that was passed over is not whole."""

    def __str__(self) -> str:
        gpu = f" (GPU {', '.join(self.placement.gpu_ids)})" if self.placement.gpu_ids else ""
        origin = f"resumed from {self.checkpoint}" if self.checkpoint else "at its start"
        return (
            f"{self.device_name}{gpu} on {self.placement.address}, process {self.placement.pid}; trains "
            f"{self.trained_parameters / 1e6:.1f} of {self.parameters / 1e6:.1f} M parameters, float32 weights, "
            f"{self.compute_dtype} products, {self.threads} threads, {self.memory_free / 2**30:.1f} of "
            f"{self.memory_total / 2**30:.1f} GiB free; loaded in {self.load_seconds:.1f} s, {origin}"
        )


@dataclass(frozen=True, slots=True)
class LearnedStep:
    """What a step over rollout groups did. `advantages` has one list a group, in order, NaN where there is no reward."""

    metrics: dict[str, float]
    advantages: list[list[float]]


@dataclass(frozen=True, slots=True)
class PublishedWeights:
    """Weights in the object store; the reference travels, the weights only to who asks for them."""

    version: int
    reference: Any
    """Of an `actors.weights.Weights`."""


class TrainingHost:
    """Loads the model, or the newest checkpoint of it, on demand and trains it. One call at a time."""

    def __init__(self, spec: LearnerSpec) -> None:
        self._spec = spec
        self._loaded: Learner | None = None
        self._tokenizer: Any = None
        self._teacher: Any = None
        self._calls = 0

    def load(self) -> LearnerReport:
        """Load the model, and its newest whole checkpoint where there is one.

        Raises PinningError, ModelError, CheckpointError, and LearnerBroken where the run folder is out of reach.
        """
        import torch
        from transformers.utils import logging

        from actors.learning.checkpoint import load_checkpoint
        from actors.learning.learner import Learner
        from actors.models import load_model

        logging.disable_progress_bar()
        start = time.perf_counter()
        placement = read_placement(self._spec.num_gpus)
        if not Path(self._spec.run_folder).is_dir():
            raise LearnerBroken(
                f"the learner on {placement.address} does not see the run folder {self._spec.run_folder}, where its "
                "checkpoints belong: set run.dir to storage that all nodes share, or run the driver on the learner's node"
            )
        torch.set_num_threads(self._spec.num_cpus)
        loaded = load_model(replace(self._spec.model, dtype="float32"))
        self._tokenizer = loaded.tokenizer
        self._loaded = learner = Learner(loaded.model, self._spec.settings)
        if self._spec.teacher is not None:
            self._teacher = load_model(self._spec.teacher.model).model
        checkpoints = self._checkpoints()
        newest = checkpoints.latest()
        if newest is not None:
            load_checkpoint(newest.path, learner)
        on_gpu = loaded.device.type == "cuda"
        free, total = torch.cuda.mem_get_info(loaded.device) if on_gpu else host_memory()
        return LearnerReport(
            placement=placement,
            device=str(loaded.device),
            device_name=torch.cuda.get_device_name(loaded.device) if on_gpu else "CPU",
            compute_dtype=str(learner.policy.compute_dtype).removeprefix("torch."),
            threads=torch.get_num_threads(),
            trained_parameters=sum(weight.numel() for weight in learner.policy.trained().values()),
            parameters=loaded.num_parameters,
            memory_total=total,
            memory_free=free,
            load_seconds=time.perf_counter() - start,
            step=learner.step_count,
            policy_version=learner.policy_version,
            checkpoint=newest.path.name if newest else None,
            torn=tuple(checkpoints.torn()),
        )

    def step(self, groups: Sequence[RolloutGroup]) -> LearnedStep:
        """One update from `groups`, as `Learner.step`."""
        from actors.learning.selection import select

        learner = self._learner()
        metrics = learner.step(groups)
        values = iter(select(groups, learner.settings.advantages, learner.settings.loss).compared.values.tolist())
        return LearnedStep(metrics, [[next(values) for _ in group.rollouts] for group in groups])

    def supervised_step(self, examples: Sequence[Example]) -> dict[str, float]:
        """One update towards worked solutions, and the teacher's tokens if there is one, as `Learner.supervised_step`."""
        learner = self._learner()
        return learner.supervised_step(self._taught(learner, examples))

    def supervised_loss(self, examples: Sequence[Example]) -> dict[str, float]:
        """The loss of held-out solutions, as `Learner.supervised_loss`."""
        return self._learner().supervised_loss(examples)

    def _taught(self, learner: "Learner", examples: Sequence[Example]) -> Sequence[Example]:
        if self._spec.teacher is None:
            return examples
        from actors.learning.teacher import taught

        vocabulary = learner.policy.base.config.get_text_config().vocab_size
        budget = learner.token_budget
        return taught(self._teacher, examples, self._spec.teacher.top_k, budget, vocabulary)

    def publish(self, dtype: str) -> PublishedWeights:
        """Put the weights, as `dtype`, into the object store once for all generators."""
        import torch

        from actors.weights import pack_weights

        learner = self._learner()
        weights = pack_weights(learner.weights(getattr(torch, dtype)), learner.policy_version)
        return PublishedWeights(weights.version, ray.put(weights))

    def save(self, extra: Mapping[str, Any], score: float | None) -> str:
        """Write a checkpoint, as `Checkpoints.save`; returns its folder."""
        return str(self._checkpoints().save(self._learner(), self._tokenizer, extra, score).path)

    @ray.method(concurrency_group="health")
    def progress(self) -> dict[str, int]:
        """Counters that move while a call runs; answered by a thread of its own."""
        return {"calls": self._calls, "passes": self._loaded.passes if self._loaded else 0}

    def _learner(self) -> "Learner":
        import torch

        assert self._loaded is not None, "load comes first"
        self._calls += 1
        torch.set_num_threads(self._spec.num_cpus)  # a thread's own setting, and calls may come on another
        return self._loaded

    def _checkpoints(self) -> "Checkpoints":
        from actors.learning.checkpoint import Checkpoints

        return Checkpoints(self._spec.checkpoints, self._spec.keep_last, self._spec.keep_best)


LearnerActor: Any = ray.remote(concurrency_groups={"health": 1})(TrainingHost)  # type: ignore[call-overload]  # stubs lack it
