"""The settings of training, with their defaults, ranges and help texts.

Defaults and rules over several settings are those of `actors.learning.settings`, which computes with them.
"""

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from actors.engine.requests import SamplingParams
from actors.learning import (
    AdvantageSettings,
    LearnerSettings,
    LoraSettings,
    LossSettings,
    OptimizerSettings,
    check_sampling,
)
from grading.reward import RewardSettings
from pipelines.config.schema import Auto, DataConfig, JobConfig, SamplingConfig, Section, positive_or_auto


class TrainingDataConfig(DataConfig):
    """The problems to learn from. `data: SOURCE` is short for `data.source: SOURCE`."""

    source: str = Field(
        "builtin:arithmetic",
        min_length=1,
        description="hub id, JSONL or parquet file, `builtin:mini` or `builtin:arithmetic`",
    )
    split: str = Field("train", min_length=1, description="split of a hub data set or of builtin:arithmetic")


class RolloutSamplingConfig(SamplingConfig):
    """How rollouts are drawn: from the policy itself, without filters, at the temperature that the learner uses."""

    temperature: float = Field(1.0, gt=0, allow_inf_nan=False, description="logits are divided by it, in training too")


class LearnerConfig(Section):
    """The Ray actor that holds the policy and its optimiser."""

    cpus: int | Auto = Field(
        "auto",
        description="cores; auto: 1 beside a GPU, all under a private Ray on this machine (learner and generators take "
        "turns), else half of what is free on the largest node",
    )
    gpus: float | Auto = Field(
        "auto", description="1, 0 or a share 1/k to sit on one GPU with a generator; auto: 1 if there are GPUs"
    )
    compute_dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="type of matrix products; weights and optimiser are always float32"
    )
    token_budget: int | Auto = Field(
        "auto",
        description="most tokens of a micro-batch, padding included; lower it when memory runs short; auto: 4096 on a "
        "GPU, 1024 on a CPU",
    )
    share_prompts: bool = Field(True, description="compute the prompt of a group once for all its completions")
    gradient_checkpointing: bool = Field(False, description="much less memory for about a third more time")

    @field_validator("token_budget")
    @classmethod
    def _at_least_one(cls, value: int | Auto) -> int | Auto:
        return positive_or_auto(value)

    @field_validator("gpus")
    @classmethod
    def _whole_gpu_or_one_kth(cls, value: float | Auto) -> float | Auto:
        if value == "auto" or value in (0, 1) or (0 < value < 1 and abs(1 / value - round(1 / value)) < 1e-3):
            return value
        raise ValueError("must be 0, 1 or a share 1/k such as 0.5")


class OptimizerConfig(Section):
    """AdamW and the course of its learning rate."""

    lr: float = Field(1e-6, gt=0, description="learning rate after warm-up")
    weight_decay: float = Field(0.0, ge=0, description="on matrices, not on biases and norms")
    betas: tuple[float, float] = Field((0.9, 0.999), description="decay of the two moments")
    eps: float = Field(1e-8, gt=0, description="added to the root of the second moment")
    max_grad_norm: float = Field(1.0, gt=0, description="gradients are scaled down to this norm")
    warmup_steps: int = Field(0, ge=0, description="steps until lr is reached")
    decay: Literal["constant", "linear", "cosine"] = Field("constant", description="course after warm-up")
    final_lr_ratio: float = Field(0.0, ge=0, le=1, description="what the decay ends at, as a share of lr")


class LoraConfig(Section):
    """Low-rank updates instead of all weights; needs `pip install 'mathlete[lora]'`."""

    rank: int = Field(0, ge=0, description="0: train all weights")
    alpha: float = Field(32.0, gt=0, description="scale of the updates, divided by the rank")


class EvaluationConfig(Section):
    """What is measured while training, on problems that are held out, with the generators of the run."""

    every: int = Field(0, ge=0, description="steps between two evaluations, one before the first step; 0: never")
    data: DataConfig = DataConfig(source="HuggingFaceH4/MATH-500", limit="100")
    sampling: SamplingConfig = SamplingConfig()


class CheckpointsConfig(Section):
    """What is kept of the policy, in the run folder."""

    every: int = Field(10, ge=1, description="steps between two checkpoints; the last step always has one")
    keep_last: int = Field(2, ge=1, description="the newest so many are kept")
    keep_best: bool = Field(True, description="so is the one of the best evaluation")


class TrainingConfig(JobConfig):
    """What all training jobs share."""

    data: TrainingDataConfig = TrainingDataConfig()
    learner: LearnerConfig = LearnerConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    lora: LoraConfig = LoraConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoints: CheckpointsConfig = CheckpointsConfig()

    indifferent: ClassVar[frozenset[str]] = JobConfig.indifferent | {
        "learner.cpus",
        "learner.gpus",
        "learner.token_budget",
        "learner.share_prompts",
        "learner.gradient_checkpointing",
        "evaluation.every",
        "checkpoints",
    }

    def learner_settings(self) -> LearnerSettings:
        """The settings in the words of the learner's package. Raises ValueError for a combination without sense."""
        raise NotImplementedError

    def shared_learner_settings(self, total_steps: int) -> dict[str, Any]:
        """The arguments of `LearnerSettings` that all training jobs have."""
        optimizer = self.optimizer.model_dump()
        return {
            "optimizer": OptimizerSettings(
                **optimizer, total_steps=None if self.optimizer.decay == "constant" else total_steps
            ),
            "lora": LoraSettings(self.lora.rank, self.lora.alpha) if self.lora.rank else None,
            **self.learner.model_dump(exclude={"cpus", "gpus", "token_budget"}),
            "token_budget": None if self.learner.token_budget == "auto" else self.learner.token_budget,
        }

    @model_validator(mode="after")
    def _settings_fit_together(self) -> Self:
        self.learner_settings()
        return self


class AdvantagesConfig(Section):
    """How rewards of a group become advantages."""

    baseline: Literal["mean", "leave_one_out"] = Field(
        "mean", description="mean: of the whole group; leave_one_out: of the others (RLOO)"
    )
    scale: Literal["group", "batch", "none"] = Field(
        "group", description="divide by the standard deviation of the group (GRPO), of the batch, or not (Dr. GRPO)"
    )
    zero_variance_groups: Literal["skip", "keep"] = Field(
        "skip", description="skip: groups of equal rewards leave the step; keep: their tokens count in the denominator"
    )


class LossConfig(Section):
    """The objective; docs/learning.md has each formula with its source."""

    objective: Literal["clip", "gspo", "cispo"] = Field("clip", description="clip: PPO-clip a token")
    aggregation: Literal["token_mean", "sequence_mean", "constant"] = Field(
        "token_mean", description="token_mean: DAPO; sequence_mean: GRPO; constant: Dr. GRPO"
    )
    epsilon: float = Field(0.2, description="lower clip range of the ratio")
    epsilon_high: float = Field(0.28, description="upper clip range of the ratio")
    dual_clip: float | None = Field(None, description="bound of the ratio where the advantage is negative")
    beta: float = Field(0.0, description="weight of the KL divergence to the reference policy; 0 keeps none in memory")
    kl_estimator: Literal["k1", "k2", "k3"] = Field("k3", description="estimator of that divergence")
    entropy_coef: float = Field(0.0, description="weight of an entropy bonus")
    correction: Literal["token", "sequence", "none"] = Field(
        "token", description="truncated importance sampling between generator and trainer"
    )
    correction_cap: float = Field(2.0, description="upper bound of that weight")
    ratio_to: Literal["trainer", "generator"] = Field(
        "trainer", description="old policy of the ratio: recomputed by the trainer, or as the generator recorded it"
    )
    mask_truncated: bool = Field(False, description="leave completions that ran out of tokens out of the loss")
    overlong_buffer: int | None = Field(
        None, description="within so many tokens of max_new_tokens the reward falls linearly by up to 1"
    )


class RewardConfig(Section):
    """What a rollout is rewarded for; the terms add up. docs/grading.md has the details."""

    correct: float = Field(1.0, allow_inf_nan=False, description="for a right answer")
    wrong: float = Field(0.0, allow_inf_nan=False, description="for a wrong answer, or none")
    format: float = Field(0.0, allow_inf_nan=False, description="for an answer in a box, right or wrong")
    length_penalty: float = Field(
        0.0, allow_inf_nan=False, description="what a right answer loses that takes all of max_new_tokens"
    )
    function: str | None = Field(
        None, description="your own reward as module:function, f(completion, gold, problem) -> number"
    )
    function_weight: float = Field(1.0, allow_inf_nan=False, description="what its value is multiplied by")

    @field_validator("function")
    @classmethod
    def _names_a_function(cls, value: str | None) -> str | None:
        RewardSettings(function=value)
        return value


class GrpoSection(Section):
    """The loop: what makes a step, and how many."""

    steps: int = Field(100, ge=1, description="optimiser steps in all; raise it to train on")
    problems_per_step: int = Field(8, ge=1, description="problems, each a group of rollouts")
    num_generations: int = Field(8, ge=2, description="rollouts a problem: the group size")
    num_iterations: int = Field(1, ge=1, description="updates on the rollouts of a step")
    max_staleness: int = Field(
        0, ge=0, description="0: rollouts are always of the newest weights; k: generation runs ahead by up to k steps"
    )
    refill_rounds: int = Field(
        0,
        ge=0,
        description="dynamic sampling: so many times at most, groups whose rewards are all equal are made up for by "
        "other problems; 0 trains on what is left",
    )
    seed: int = Field(0, description="order of the problems")
    rollouts_from: str | None = Field(
        None, description="folder of another GRPO run: train from its recorded rollouts, without generating"
    )
    logp_warning: float = Field(
        0.1, gt=0, description="warn when generator and trainer differ by more nats a token on average"
    )


class GrpoConfig(TrainingConfig):
    """Train a model on problems with verifiable answers."""

    sampling: RolloutSamplingConfig = RolloutSamplingConfig()
    grpo: GrpoSection = GrpoSection()
    advantages: AdvantagesConfig = AdvantagesConfig()
    loss: LossConfig = LossConfig()
    reward: RewardConfig = RewardConfig()

    indifferent: ClassVar[frozenset[str]] = TrainingConfig.indifferent | {"grpo.steps", "grpo.logp_warning"}

    def learner_settings(self) -> LearnerSettings:
        settings = LearnerSettings(
            advantages=AdvantageSettings(**self.advantages.model_dump()),
            loss=LossSettings(**self.loss.model_dump(), max_completion_tokens=self.sampling.max_new_tokens),
            temperature=self.sampling.temperature,
            num_iterations=self.grpo.num_iterations,
            **self.shared_learner_settings(self.grpo.steps),
        )
        check_sampling(SamplingParams(**dict(self.sampling)), settings)
        return settings
