"""The settings of supervised training."""

from typing import ClassVar, Literal

from pydantic import Field

from actors.learning import LearnerSettings
from pipelines.config.schema import Section
from pipelines.config.training import TrainingConfig, TrainingDataConfig


class SolutionsConfig(TrainingDataConfig):
    """The solutions to learn. `data: SOURCE` is short for `data.source: SOURCE`."""

    from_run: str | None = Field(
        None, description="run folder, or its name below runs/: learn its correct completions instead of `source`"
    )
    max_per_problem: int | None = Field(None, ge=1, description="of a run: at most so many completions of a problem")


class TeacherConfig(Section):
    """A model to learn from token by token, beside the solutions. `teacher: NAME` is short for `teacher.name: NAME`."""

    shorthand = "name"

    name: str | None = Field(
        None, description="local folder, hub id or built-in model with the same tokenizer; unset: there is none"
    )
    revision: str | None = Field(None, description="branch, tag or commit of a hub model")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field("auto", description="as model.dtype")
    trust_remote_code: bool = Field(False, description="run Python code that comes with the model")
    top_k: int = Field(32, ge=1, description="its most probable tokens at each place; all others count as one")
    weight: float = Field(0.5, ge=0, le=1, description="share of KL(teacher ‖ model) in the loss")


class DistillSection(Section):
    """The loop: what makes a step, and how many."""

    epochs: int = Field(1, ge=1, description="passes over the examples")
    steps: int | None = Field(None, ge=1, description="optimiser steps in all, instead of epochs; raise it to train on")
    batch_size: int = Field(64, ge=1, description="examples of a step")
    seed: int = Field(0, description="order of the examples")
    max_seq_len: int | None = Field(
        None, ge=2, description="tokens that prompt and solution may have; unset: the model's context"
    )
    overlong: Literal["drop", "truncate"] = Field("drop", description="what becomes of longer ones; they are counted")
    bad_rows: Literal["refuse", "drop"] = Field(
        "refuse", description="rows that cannot be read or have no solution: refuse them all, or drop and count them"
    )
    held_out: int = Field(0, ge=0, description="examples set apart: their loss is measured with each evaluation")


class DistillConfig(TrainingConfig):
    """Train a model on worked solutions."""

    data: SolutionsConfig = SolutionsConfig()
    teacher: TeacherConfig = TeacherConfig()
    distill: DistillSection = DistillSection()

    indifferent: ClassVar[frozenset[str]] = TrainingConfig.indifferent | {"distill.steps", "distill.epochs"}

    def learner_settings(self) -> LearnerSettings:
        # Before the examples are counted, epochs are no number of steps: any that the warm-up leaves room for will do.
        steps = self.distill.steps or self.optimizer.warmup_steps + 1
        return LearnerSettings(teacher_weight=self.teacher.weight, **self.shared_learner_settings(steps))

    def with_steps(self, steps: int) -> "DistillConfig":
        """The same with the number of steps that it comes to. Raises ValueError where the warm-up is longer."""
        settled = self.model_copy(update={"distill": self.distill.model_copy(update={"steps": steps})})
        settled.learner_settings()
        return settled
