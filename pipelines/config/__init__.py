"""Typed configuration: YAML files plus dotted overrides."""

from pipelines.config.loading import ConfigError, describe_settings, dump_config, load_config
from pipelines.config.schema import EvalConfig, result_settings

__all__ = ["ConfigError", "EvalConfig", "describe_settings", "dump_config", "load_config", "result_settings"]
