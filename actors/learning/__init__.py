"""Turning rollouts and worked solutions into updates of a policy. Never imports ray.

Importing this package alone loads no torch: a driver needs only settings and records.
"""

from actors.learning.rollouts import Example, Rollout, RolloutGroup, TeacherTokens
from actors.learning.settings import (
    AdvantageSettings,
    LearnerSettings,
    LoraSettings,
    LossSettings,
    OptimizerSettings,
    check_sampling,
)

__all__ = [
    "AdvantageSettings",
    "Example",
    "LearnerSettings",
    "LoraSettings",
    "LossSettings",
    "OptimizerSettings",
    "Rollout",
    "RolloutGroup",
    "TeacherTokens",
    "check_sampling",
]
