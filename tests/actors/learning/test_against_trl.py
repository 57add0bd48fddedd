"""The same tokens, rewards and old log-probabilities give the loss and gradient that TRL gave; see record_trl.py."""

import json
from pathlib import Path

import pytest

from actors.learning.learner import Learner
from actors.learning.settings import LearnerSettings, OptimizerSettings
from tests.actors.learning.cases import NO_CLIPPING, gradient_of
from tests.actors.learning.record_trl import OURS, TEMPERATURE, fixed_groups, fixed_model, projections, settings_of

RECORD = json.loads((Path(__file__).parent / "data" / "trl.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("budget", [1, 1000])
@pytest.mark.parametrize("name", OURS)
def test_loss_and_gradient_are_those_of_trl(name: str, budget: int) -> None:
    settings = LearnerSettings(
        loss=settings_of(name),
        temperature=TEMPERATURE,
        compute_dtype="float32",
        token_budget=budget,
        optimizer=OptimizerSettings(max_grad_norm=NO_CLIPPING),
    )
    learner = Learner(fixed_model(), settings)
    metrics: dict[str, float] = {}
    groups = fixed_groups(RECORD["old_logprobs"])
    found = gradient_of(learner, lambda batch: metrics.update(learner.step(batch)), groups)
    expected = RECORD["cases"][name]
    assert metrics["loss/policy"] == pytest.approx(expected["loss"], rel=1e-5, abs=1e-6)
    assert metrics["clip_ratio/region_mean"] > 0, "the case reaches the clip"
    norm = expected["gradient"][-1]
    assert projections(found) == pytest.approx(expected["gradient"], rel=0, abs=1e-5 * norm)
