"""The learning rate of each step."""

import math

from actors.learning.settings import OptimizerSettings


def learning_rate(step: int, settings: OptimizerSettings) -> float:
    """The learning rate of `step`, counted from 0: linear warm-up to lr, then the decay to final_lr_ratio * lr, which
    is reached at total_steps and kept from there on. A function of the step alone, so nothing of it is ever stored."""
    if step < settings.warmup_steps:
        return settings.lr * (step + 1) / settings.warmup_steps
    if settings.decay == "constant" or settings.total_steps is None:
        return settings.lr
    done = min(1.0, (step - settings.warmup_steps) / (settings.total_steps - settings.warmup_steps))
    left = 1 - done if settings.decay == "linear" else (1 + math.cos(math.pi * done)) / 2
    return settings.lr * (settings.final_lr_ratio + (1 - settings.final_lr_ratio) * left)
