"""Typed configuration: YAML files plus dotted overrides."""

from pipelines.config.distill import DistillConfig
from pipelines.config.evaluation import EvalConfig
from pipelines.config.loading import ConfigError, describe_settings, dump_config, load_config
from pipelines.config.schema import JobConfig, result_settings
from pipelines.config.training import GrpoConfig, TrainingConfig

__all__ = [
    "ConfigError",
    "DistillConfig",
    "EvalConfig",
    "GrpoConfig",
    "JobConfig",
    "TrainingConfig",
    "describe_settings",
    "dump_config",
    "load_config",
    "result_settings",
]
