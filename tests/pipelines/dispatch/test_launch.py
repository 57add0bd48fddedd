"""From the configuration to what actors understand."""

from dataclasses import asdict

from actors.engine.build import EngineSettings
from pipelines.config import EvalConfig, load_config
from pipelines.dispatch.launch import engine_settings


def test_an_engine_left_alone_has_the_defaults_of_its_own_package() -> None:
    assert engine_settings(EvalConfig().generation) == EngineSettings()


def test_every_setting_reaches_the_engine() -> None:
    words = {
        "engine": "padded",
        "policy": "dynamic",
        "batch_size": 7,
        "token_budget": 100,
        "kv_cache_tokens": 5000,
        "kv_admission": "worst_case",
        "dynamic_window_ms": 2.5,
        "dynamic_requests": 3,
    }
    config = load_config(EvalConfig, None, [f"generation.{key}={value}" for key, value in words.items()])
    expected = {key: value for key, value in words.items() if key != "dynamic_window_ms"}
    assert asdict(engine_settings(config.generation)) == expected | {"dynamic_window_s": 0.0025}
