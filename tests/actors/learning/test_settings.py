import math
import subprocess
import sys
from typing import Any

import pytest

from actors.engine.requests import SamplingParams
from actors.learning.schedule import learning_rate
from actors.learning.settings import (
    AdvantageSettings,
    LearnerSettings,
    LoraSettings,
    LossSettings,
    OptimizerSettings,
    check_sampling,
)


def test_defaults_are_the_documented_ones() -> None:
    settings = LearnerSettings()
    assert (settings.loss.epsilon, settings.loss.epsilon_high, settings.loss.beta) == (0.2, 0.28, 0)
    assert (settings.loss.objective, settings.loss.aggregation) == ("clip", "token_mean")
    assert (settings.optimizer.lr, settings.optimizer.max_grad_norm, settings.temperature) == (1e-6, 1, 1)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (AdvantageSettings, {"baseline": "median"}, "baseline must be one of mean, leave_one_out, got 'median'"),
        (LossSettings, {"epsilon": 0}, "epsilon must lie between 0 and 1"),
        (LossSettings, {"epsilon_high": -0.1}, "epsilon_high must be above 0"),
        (LossSettings, {"dual_clip": 1.2}, r"dual_clip must be above 1 \+ epsilon_high = 1.28"),
        (LossSettings, {"objective": "cispo", "dual_clip": 3.0}, "no meaning for cispo"),
        (LossSettings, {"beta": -1}, "beta must be 0"),
        (LossSettings, {"aggregation": "constant"}, "set it to the budget of a completion"),
        (LossSettings, {"overlong_buffer": 5}, "overlong_buffer must lie between"),
        (LossSettings, {"correction_cap": 0.5}, "correction_cap must be at least 1"),
        (OptimizerSettings, {"decay": "cosine"}, "decay cosine needs optimizer.total_steps"),
        (OptimizerSettings, {"decay": "linear", "total_steps": 5, "warmup_steps": 5}, "above warmup_steps 5"),
        (OptimizerSettings, {"lr": 0}, "lr must be above 0"),
        (LoraSettings, {"rank": 0}, "rank must be at least 1"),
        (LearnerSettings, {"temperature": 0}, "greedy completions teach nothing"),
        (LearnerSettings, {"compute_dtype": "float16"}, "one of auto, float32, bfloat16"),
        (LearnerSettings, {"token_budget": 0}, "token_budget must be at least 1"),
    ],
)
def test_a_value_out_of_range_is_refused_in_plain_words(kind: Any, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**fields)


def test_training_refuses_sampling_that_the_learner_cannot_reproduce_with_all_reasons_at_once() -> None:
    settings = LearnerSettings(temperature=0.8)
    check_sampling(SamplingParams(temperature=0.8, stop=("\n",)), settings)
    with pytest.raises(ValueError) as refusal:
        check_sampling(SamplingParams(temperature=1.0, top_p=0.9, top_k=20, min_p=0.1), settings)
    for word in ("temperature is 1 and the learner's 0.8", "top_p is 0.9", "top_k is 20", "min_p is 0.1"):
        assert word in str(refusal.value)


def test_the_learning_rate_warms_up_then_decays_to_its_end_and_stays_there() -> None:
    linear = OptimizerSettings(lr=1.0, warmup_steps=4, decay="linear", total_steps=12, final_lr_ratio=0.1)
    found = [learning_rate(step, linear) for step in (0, 3, 4, 8, 12, 50)]
    assert found == pytest.approx([0.25, 1.0, 1.0, 0.55, 0.1, 0.1])
    cosine = OptimizerSettings(lr=1.0, decay="cosine", total_steps=8)
    assert [learning_rate(step, cosine) for step in (0, 2, 4, 8)] == pytest.approx(
        [1, (1 + math.cos(math.pi / 4)) / 2, 0.5, 0]
    )
    assert [learning_rate(step, OptimizerSettings(lr=1.0, warmup_steps=2)) for step in (0, 1, 9)] == [0.5, 1, 1]


def test_a_driver_imports_settings_and_records_without_torch() -> None:
    code = "import actors.learning, sys; print(*sorted({'torch', 'ray', 'transformers'} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.split() == []
