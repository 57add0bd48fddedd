"""Every setting of the learner. Each raises ValueError, in the user's words, for a value out of its range."""

import math
from dataclasses import dataclass, field
from typing import Literal

from actors.engine.requests import SamplingParams

Baseline = Literal["mean", "leave_one_out"]
Scale = Literal["group", "batch", "none"]
Objective = Literal["clip", "gspo", "cispo"]
Aggregation = Literal["token_mean", "sequence_mean", "constant"]
Estimator = Literal["k1", "k2", "k3"]
Correction = Literal["token", "sequence", "none"]
Decay = Literal["constant", "linear", "cosine"]


@dataclass(frozen=True, slots=True)
class AdvantageSettings:
    """How rewards of a group become advantages."""

    baseline: Baseline = "mean"
    """mean: of the whole group (GRPO). leave_one_out: of the others (RLOO)."""
    scale: Scale = "group"
    """group: divide by the group's sample standard deviation (GRPO). batch: by the batch's. none: Dr. GRPO, RLOO."""
    zero_variance_groups: Literal["skip", "keep"] = "skip"
    """skip: groups whose rewards are all equal leave the step before any denominator is computed. keep: their tokens
    count in the denominator, as in TRL, and in the KL and entropy terms."""

    def __post_init__(self) -> None:
        _one_of("advantages.baseline", self.baseline, ("mean", "leave_one_out"))
        _one_of("advantages.scale", self.scale, ("group", "batch", "none"))
        _one_of("advantages.zero_variance_groups", self.zero_variance_groups, ("skip", "keep"))


@dataclass(frozen=True, slots=True)
class LossSettings:
    """The objective that a step minimises. Defaults are DAPO's: token mean, clip 0.2 and 0.28, no reference policy."""

    objective: Objective = "clip"
    """clip: PPO-clip a token. gspo: one ratio a sequence. cispo: clipped weight on log-probabilities."""
    aggregation: Aggregation = "token_mean"
    """token_mean (DAPO), sequence_mean (GRPO), constant (Dr. GRPO)."""
    epsilon: float = 0.2
    """The ratio's gradient stops below 1 - epsilon. GSPO needs about 3e-4."""
    epsilon_high: float = 0.28
    """The ratio's gradient stops above 1 + epsilon_high. GSPO needs about 4e-4, CISPO about 4."""
    dual_clip: float | None = None
    """Bound on the ratio where the advantage is negative, above 1 + epsilon_high; 3 is usual. None is off."""
    beta: float = 0.0
    """Weight of the KL divergence to the reference policy. At 0 no reference is kept in memory."""
    kl_estimator: Estimator = "k3"
    entropy_coef: float = 0.0
    """Weight of an entropy bonus."""
    correction: Correction = "token"
    """Truncated importance sampling between generator and trainer: a weight a token, a sequence, or none."""
    correction_cap: float = 2.0
    """Upper bound of that weight."""
    ratio_to: Literal["trainer", "generator"] = "trainer"
    """The old policy of the ratio. trainer: the learner's own log-probabilities before the first update of the step.
    generator: the log-probabilities that sampling recorded; the correction is then part of the ratio."""
    max_completion_tokens: int | None = None
    """The budget of a completion; the denominator of `constant` and the end of the overlong buffer."""
    mask_truncated: bool = False
    """Leave completions that ran out of tokens out of the loss; they still count in their group's baseline."""
    overlong_buffer: int | None = None
    """Within this many tokens of max_completion_tokens the reward falls linearly by up to 1. None is off."""

    def __post_init__(self) -> None:
        _one_of("loss.objective", self.objective, ("clip", "gspo", "cispo"))
        _one_of("loss.aggregation", self.aggregation, ("token_mean", "sequence_mean", "constant"))
        _one_of("loss.kl_estimator", self.kl_estimator, ("k1", "k2", "k3"))
        _one_of("loss.correction", self.correction, ("token", "sequence", "none"))
        _one_of("loss.ratio_to", self.ratio_to, ("trainer", "generator"))
        _require(0 < self.epsilon < 1, f"loss.epsilon must lie between 0 and 1, got {self.epsilon}")
        _require(self.epsilon_high > 0, f"loss.epsilon_high must be above 0, got {self.epsilon_high}")
        _require(
            self.dual_clip is None or self.dual_clip > 1 + self.epsilon_high,
            f"loss.dual_clip must be above 1 + epsilon_high = {1 + self.epsilon_high:g}, got {self.dual_clip}",
        )
        _require(
            self.dual_clip is None or self.objective != "cispo",
            "loss.dual_clip has no meaning for cispo, whose weight is bounded already: leave it out",
        )
        _require(self.beta >= 0, f"loss.beta must be 0 (no reference policy) or positive, got {self.beta}")
        _require(math.isfinite(self.entropy_coef), f"loss.entropy_coef must be a number, got {self.entropy_coef}")
        _require(self.correction_cap >= 1, f"loss.correction_cap must be at least 1, got {self.correction_cap}")
        _require(
            self.max_completion_tokens is None or self.max_completion_tokens >= 1,
            f"loss.max_completion_tokens must be at least 1, got {self.max_completion_tokens}",
        )
        _require(
            self.aggregation != "constant" or self.max_completion_tokens is not None,
            "loss.aggregation constant divides by loss.max_completion_tokens: set it to the budget of a completion",
        )
        if self.overlong_buffer is not None:
            _require(
                self.max_completion_tokens is not None and 1 <= self.overlong_buffer <= self.max_completion_tokens,
                "loss.overlong_buffer must lie between 1 and loss.max_completion_tokens, "
                f"got {self.overlong_buffer} and {self.max_completion_tokens}",
            )


@dataclass(frozen=True, slots=True)
class OptimizerSettings:
    """AdamW and the course of its learning rate, counted in steps."""

    lr: float = 1e-6
    weight_decay: float = 0.0
    """On matrices only: not on biases and norms."""
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    max_grad_norm: float = 1.0
    warmup_steps: int = 0
    decay: Decay = "constant"
    total_steps: int | None = None
    """Where the decay ends."""
    final_lr_ratio: float = 0.0
    """What the decay ends at, as a share of lr."""

    def __post_init__(self) -> None:
        _one_of("optimizer.decay", self.decay, ("constant", "linear", "cosine"))
        _require(self.lr > 0, f"optimizer.lr must be above 0, got {self.lr}")
        _require(self.weight_decay >= 0, f"optimizer.weight_decay must not be negative, got {self.weight_decay}")
        _require(all(0 <= beta < 1 for beta in self.betas), f"optimizer.betas must lie in [0, 1), got {self.betas}")
        _require(self.eps > 0, f"optimizer.eps must be above 0, got {self.eps}")
        _require(self.max_grad_norm > 0, f"optimizer.max_grad_norm must be above 0, got {self.max_grad_norm}")
        _require(self.warmup_steps >= 0, f"optimizer.warmup_steps must not be negative, got {self.warmup_steps}")
        _require(
            0 <= self.final_lr_ratio <= 1, f"optimizer.final_lr_ratio must lie in [0, 1], got {self.final_lr_ratio}"
        )
        _require(
            self.decay == "constant" or (self.total_steps is not None and self.total_steps > self.warmup_steps),
            f"optimizer.decay {self.decay} needs optimizer.total_steps above warmup_steps {self.warmup_steps}, "
            f"got {self.total_steps}",
        )


@dataclass(frozen=True, slots=True)
class LoraSettings:
    """Train low-rank updates of all linear layers instead of the weights. Needs the package `peft`.

    There is no dropout: it would make the trainer disagree with the generators.
    """

    rank: int = 16
    alpha: float = 32.0

    def __post_init__(self) -> None:
        _require(self.rank >= 1, f"lora.rank must be at least 1, got {self.rank}")
        _require(self.alpha > 0, f"lora.alpha must be above 0, got {self.alpha}")


@dataclass(frozen=True, slots=True)
class LearnerSettings:
    """All of the above, and how the arithmetic is done."""

    advantages: AdvantageSettings = field(default_factory=AdvantageSettings)
    loss: LossSettings = field(default_factory=LossSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    lora: LoraSettings | None = None
    temperature: float = 1.0
    """Logits are divided by it in every pass over rollouts, as they were when sampling. Supervised steps use 1."""
    num_iterations: int = 1
    """Updates a batch of rollouts."""
    compute_dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Weights stay float32; matrices are multiplied in this type. auto: bfloat16 where the device computes in it."""
    token_budget: int | None = None
    """Most tokens of a micro-batch, padding included; a longer row stands alone. None: by the device. Only memory and
    speed depend on it."""
    share_prompts: bool = True
    """Compute the prompt of a group once for its completions, where the model allows it. Changes speed only."""
    gradient_checkpointing: bool = False
    """Keep a layer's inputs only and compute the rest again: much less memory, about a third more time."""
    teacher_weight: float = 0.5
    """Share of the teacher's KL divergence in a supervised loss, where examples carry a teacher's tokens."""

    def __post_init__(self) -> None:
        _one_of("compute_dtype", self.compute_dtype, ("auto", "float32", "bfloat16"))
        _require(
            math.isfinite(self.temperature) and self.temperature > 0,
            f"temperature must be a positive number: greedy completions teach nothing, got {self.temperature}",
        )
        _require(self.num_iterations >= 1, f"num_iterations must be at least 1, got {self.num_iterations}")
        _require(
            self.token_budget is None or self.token_budget >= 1,
            f"token_budget must be at least 1, got {self.token_budget}",
        )
        _require(0 <= self.teacher_weight <= 1, f"teacher_weight must lie in [0, 1], got {self.teacher_weight}")


def check_sampling(sampling: SamplingParams, settings: LearnerSettings) -> None:
    """Raise ValueError, with all reasons at once, unless rollouts drawn by `sampling` follow the distribution that the
    learner computes: softmax of the logits over the same temperature, and no filter."""
    reasons = []
    if sampling.temperature != settings.temperature:
        reasons.append(
            f"the sampling temperature is {sampling.temperature:g} and the learner's {settings.temperature:g}"
        )
    for name, value, off in (
        ("top_p", sampling.top_p, 1),
        ("top_k", sampling.top_k, 0),
        ("min_p", sampling.min_p, 0),
    ):
        if value != off:
            reasons.append(f"{name} is {value:g}; set it to {off} (off)")
    if reasons:
        raise ValueError(
            "training needs completions drawn from the policy itself, or every ratio is biased: " + "; ".join(reasons)
        )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    _require(value in allowed, f"{name} must be one of {', '.join(allowed)}, got {value!r}")
