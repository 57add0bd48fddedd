"""Which engine a model gets, and that it says why."""

from pathlib import Path

import pytest

from actors.engine.build import EngineSettings, build_engine
from actors.models import LoadedModel, ModelSpec, load_model
from tests.actors.engine.cases import GREEDY, assert_same, prompts, reference
from tests.actors.engine.tiny import save_checkpoint, tiny_model


def load(folder: Path, architecture: str) -> LoadedModel:
    return load_model(ModelSpec(str(save_checkpoint(folder, architecture)), device="cpu", dtype="float32"))


@pytest.mark.parametrize(
    ("architecture", "wanted", "got"),
    [
        ("llama", "auto", "continuous engine, lean decoder"),
        ("gpt2", "auto", "continuous engine, transformers decoder"),
        ("llama", "padded", "padded engine, sdpa attention"),
        ("bloom", "auto", "padded engine, eager attention (BloomForCausalLM does not support transformers' attention"),
    ],
)
def test_auto_takes_the_continuous_engine_where_it_is_right(
    tmp_path: Path, architecture: str, wanted: str, got: str
) -> None:
    settings = EngineSettings(engine=wanted, batch_size=4)  # type: ignore[arg-type]
    engine = build_engine(load(tmp_path, architecture), settings)
    assert engine.description.startswith(got)
    requests = prompts([5, 9, 30])
    assert_same(engine.generate(requests, GREEDY), reference(tiny_model(architecture), requests, GREEDY))


def test_a_continuous_engine_that_cannot_be_had_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot serve this model: BloomForCausalLM does not support"):
        build_engine(load(tmp_path, "bloom"), EngineSettings(engine="continuous"))


def test_settings_reach_the_engine(tmp_path: Path) -> None:
    settings = EngineSettings(
        batch_size=3, token_budget=17, kv_cache_tokens=640, policy="static", kv_admission="worst_case"
    )
    engine = build_engine(load(tmp_path, "llama"), settings)
    stats = engine.stats()  # type: ignore[attr-defined]
    assert stats["kv_tokens"] == 640
    assert "TFLOP/s" in stats["machine"]
    engine.add(prompts([40, 40, 40, 40]), GREEDY)
    engine.step()
    assert engine.progress.live_rows == 3
    assert engine.progress.prompt_tokens == 17
