"""LoRA needs the optional package peft; without it only the refusal is tested."""

import copy
import importlib.util
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from actors.learning.batches import assemble
from actors.learning.checkpoint import Checkpoints, load_checkpoint
from actors.learning.learner import Learner
from actors.learning.settings import LearnerSettings, LoraSettings, LossSettings, OptimizerSettings
from actors.models import ModelSpec, load_model
from actors.models.update import copy_weights
from tests.actors.engine.tiny import tiny_model, tiny_tokenizer
from tests.actors.learning.cases import own_learner, plain_logprobs, random_groups
from tests.actors.learning.test_policy import APART, ROWS, scored

INSTALLED = importlib.util.find_spec("peft") is not None
needs_peft = pytest.mark.skipif(not INSTALLED, reason="peft is not installed")
SETTINGS = LearnerSettings(
    compute_dtype="float32",
    lora=LoraSettings(rank=4),
    loss=LossSettings(beta=0.1),
    optimizer=OptimizerSettings(lr=1e-2),
)


def trained_learner(steps: int) -> Learner:
    torch.manual_seed(1)
    learner = own_learner(SETTINGS)
    for number in range(steps):
        learner.step(random_groups(seed=number, version=learner.policy_version))
    return learner


def plain_model_of(learner: Learner) -> PreTrainedModel:
    model = copy.deepcopy(tiny_model("llama"))
    copy_weights(model, dict(learner.weights(torch.float32)))
    return model


@pytest.mark.skipif(INSTALLED, reason="peft is installed")
def test_without_peft_the_refusal_says_what_to_do() -> None:
    with pytest.raises(ImportError, match="pip install peft"):
        own_learner(SETTINGS)


@needs_peft
def test_only_adapters_are_trained_and_the_streamed_weights_contain_them() -> None:
    learner = trained_learner(2)
    assert all(".lora_" in name for name in learner.policy.trained())
    plain = tiny_model("llama")
    assert dict(learner.weights(torch.float32)).keys() == dict(plain.named_parameters()).keys()
    merged = plain_model_of(learner)
    expected = torch.cat([plain_logprobs(merged, row.prompt_ids, row.completion_ids, 1.0) for row in ROWS])
    torch.testing.assert_close(scored(learner.policy, ROWS).double(), expected, rtol=1e-4, atol=1e-4)


@needs_peft
def test_the_reference_is_the_model_without_adapters() -> None:
    learner = trained_learner(2)
    batch = assemble(ROWS, APART, learner.policy.device)
    plain = tiny_model("llama")
    expected = torch.cat([plain_logprobs(plain, row.prompt_ids, row.completion_ids, 1.0) for row in ROWS])
    torch.testing.assert_close(learner.policy.score_reference(batch, 1.0).double(), expected, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(scored(learner.policy, ROWS).double(), expected, atol=1e-3)


@needs_peft
def test_a_checkpoint_resumes_exactly_and_is_a_plain_model(tmp_path: Path) -> None:
    undisturbed, first = trained_learner(4), trained_learner(2)
    path = Checkpoints(tmp_path).save(first, tiny_tokenizer(), {}).path
    resumed = own_learner(SETTINGS)
    load_checkpoint(path, resumed)
    for number in (2, 3):
        resumed.step(random_groups(seed=number, version=resumed.policy_version))
    for name, weight in undisturbed.policy.trained().items():
        assert torch.equal(weight, resumed.policy.trained()[name]), name
    loaded = dict(load_model(ModelSpec(str(path), dtype="float32", device="cpu")).model.named_parameters())
    for name, weight in first.weights(torch.float32):
        assert torch.equal(weight, loaded[name]), name
