import copy
import math
import re
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from actors.learning.batches import Line, Row, assemble
from actors.learning.policy import Policy
from actors.learning.settings import LearnerSettings, LossSettings
from actors.models.update import copy_weights
from tests.actors.engine.tiny import CONFIGS, EOS, tiny_model
from tests.actors.learning.cases import own_model, plain_logprobs

FLOAT32 = LearnerSettings(compute_dtype="float32")
ROWS = [
    Row((5, 9, EOS, 7), (11, EOS, 3, 8, 12, 6, 4, 9, 10, 30)),
    Row((EOS,), (EOS, EOS)),
    Row((1, 300, 200, 100, 7, 8, 9), (0, 5)),
]

APART = [(0,), (1,), (2,)]


def scored(policy: Policy, rows: list[Row], temperature: float = 1.0) -> torch.Tensor:
    batch = assemble(rows, [(index,) for index in range(len(rows))], policy.device)
    return policy.score(batch, batch.targets.unsqueeze(-1), temperature).logprobs.squeeze(-1)


@pytest.mark.parametrize("architecture", CONFIGS)
@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_a_padded_batch_scores_each_row_as_the_plain_model_scores_it_alone(
    architecture: str, temperature: float
) -> None:
    plain = tiny_model(architecture)
    expected = torch.cat(
        [plain_logprobs(plain, row.prompt_ids, row.completion_ids, temperature).detach() for row in ROWS]
    )
    found = scored(Policy(own_model(architecture), FLOAT32), ROWS, temperature)
    torch.testing.assert_close(found.detach().double(), expected, rtol=1e-5, atol=1e-5)


def layers_of(model: PreTrainedModel) -> list[torch.nn.Module]:
    """Modules inside the decoder's layers."""
    return [module for name, module in model.named_modules() if re.search(r"\.\d+\.\w+$", name)]


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "opt", "gemma2_window_8"])
def test_gradient_checkpointing_changes_nothing_and_no_dropout_is_left(architecture: str) -> None:
    gradients = []
    for checkpointing in (False, True):
        settings = LearnerSettings(compute_dtype="float32", gradient_checkpointing=checkpointing)
        model = own_model(architecture)
        policy = Policy(model, settings)
        calls: list[int] = []
        next(iter(layers_of(model))).register_forward_hook(lambda *_, calls=calls: calls.append(1))
        scored(policy, ROWS).sum().backward()
        assert len(calls) == (2 if checkpointing else 1), "a layer runs again in the backward pass"
        gradients.append({name: weight.grad for name, weight in policy.trained().items()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-5, atol=1e-5, msg=name)


def test_a_padding_id_inside_a_prompt_gets_its_gradient() -> None:
    model = own_model("llama")
    assert model.get_input_embeddings().padding_idx == EOS, "the case this test is about"
    policy = Policy(model, FLOAT32)
    scored(policy, [Row((5, EOS, 7), (8, 9))]).sum().backward()
    gradient = model.get_input_embeddings().weight.grad
    assert gradient[EOS].abs().sum() > 0
    assert gradient[[5, 7, 8]].abs().sum(dim=1).gt(0).all()


def test_weights_are_float32_even_when_the_model_came_in_bfloat16() -> None:
    model = own_model().to(torch.bfloat16)
    policy = Policy(model, LearnerSettings(compute_dtype="bfloat16"))
    assert {weight.dtype for weight in policy.trained().values()} == {torch.float32}
    scored(policy, ROWS).sum().backward()
    assert {weight.grad.dtype for weight in policy.trained().values() if weight.grad is not None} == {torch.float32}


def test_bfloat16_computes_nearly_the_same_with_matrices_in_bfloat16() -> None:
    exact = scored(Policy(own_model(), FLOAT32), ROWS)
    rough = scored(Policy(own_model(), LearnerSettings(compute_dtype="bfloat16")), ROWS)
    difference = (rough - exact).abs().max().item()
    assert 1e-5 < difference < 0.1


@pytest.mark.parametrize("lines", [[(0,), (1,), (2,)], [(0, 1, 2)]], ids=["a line each", "one line"])
def test_attention_is_in_float32_under_bfloat16(lines: list[Line], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    plain = functional.scaled_dot_product_attention

    def watched(query: Tensor, key: Tensor, value: Tensor, **settings: Any) -> Tensor:
        seen.add((query.dtype, key.dtype, value.dtype))
        return plain(query, key, value, **settings)

    policy = Policy(own_model(), LearnerSettings(compute_dtype="bfloat16"))
    monkeypatch.setattr(functional, "scaled_dot_product_attention", watched)
    rows = [Row((5, 9, 7), completion) for completion in ((1, 2), (3,), (4, 5, 6))]
    batch = assemble(rows, lines, policy.device)
    policy.score(batch, batch.targets.unsqueeze(-1), 1.0).logprobs.sum().backward()
    assert seen == {(torch.float32,) * 3}


def test_steady_weights_are_turned_into_bfloat16_once_and_forgotten_at_the_end() -> None:
    policy = Policy(own_model(), LearnerSettings(compute_dtype="bfloat16"))

    def gradients() -> list[Tensor]:
        weights = [weight for name, weight in policy.trained().items() if "proj" in name]
        return list(torch.autograd.grad(scored(policy, ROWS).sum(), weights))

    before = scored(policy, ROWS)
    with policy.steady_weights():
        first, again = gradients(), gradients()
        for weight in policy.trained().values():
            weight.data += torch.randn_like(weight) * (weight.dim() > 1)
    assert all(one.equal(other) for one, other in zip(first, again, strict=True))
    assert not scored(policy, ROWS).allclose(before, atol=0.1)
    assert policy.base.model.layers[0].mlp.up_proj.weight.dtype is torch.float32


def test_a_step_too_small_for_bfloat16_is_kept() -> None:
    policy = Policy(own_model().to(torch.bfloat16), LearnerSettings(compute_dtype="bfloat16"))
    weight = next(iter(policy.trained().values()))
    before = weight.detach().clone()
    with torch.no_grad():
        weight += 1e-6
    assert (weight != before).float().mean() > 0.9
    assert (weight.to(torch.bfloat16) == before.to(torch.bfloat16)).float().mean() > 0.9, "bfloat16 would lose it"


def test_a_model_that_changes_its_logits_in_an_unknown_way_is_refused() -> None:
    model = own_model()
    forward = model.forward

    def changed(*args: object, **options: object) -> object:
        output = forward(*args, **options)
        output.logits = output.logits * 1.5
        return output

    model.forward = changed  # type: ignore[method-assign, assignment]
    with pytest.raises(ValueError, match="LlamaForCausalLM cannot be trained"):
        Policy(model, FLOAT32)


def test_the_reference_is_the_policy_that_training_began_with() -> None:
    policy = Policy(own_model(), LearnerSettings(compute_dtype="float32", loss=LossSettings(beta=0.1)))
    batch = assemble(ROWS, APART, policy.device)
    at_first = scored(policy, ROWS).detach()
    torch.testing.assert_close(policy.score_reference(batch, 1.0), at_first, rtol=0, atol=0)
    with torch.no_grad():
        for weight in policy.trained().values():
            weight.mul_(1.1)
    torch.testing.assert_close(policy.score_reference(batch, 1.0), at_first, rtol=0, atol=0)
    assert not torch.allclose(scored(policy, ROWS), at_first)


def test_without_beta_no_reference_is_kept() -> None:
    policy = Policy(own_model(), FLOAT32)
    with pytest.raises(ValueError, match=r"beta is 0"):
        policy.score_reference(assemble(ROWS, APART, policy.device), 1.0)


@pytest.mark.parametrize("architecture", CONFIGS)
def test_completions_that_share_a_line_score_as_on_lines_of_their_own(architecture: str) -> None:
    prompt = (5, EOS, 7, 9)
    rows = [Row(prompt, (11, EOS, 3)), Row(prompt, (8,)), Row(prompt, (11, 12, 6, 4)), Row((20,), (9, 9))]
    policy = Policy(own_model(architecture), FLOAT32)
    cannot = "window" in architecture or architecture in ("falcon_alibi", "bloom")
    assert (policy.shared_tokens == 0) == cannot
    if policy.shared_tokens:
        shared = assemble(rows, [(0, 1, 2), (3,)], policy.device)
        found = policy.score(shared, shared.targets.unsqueeze(-1), 1.0).logprobs.squeeze(-1)
        torch.testing.assert_close(found, scored(policy, rows), rtol=1e-5, atol=1e-5)


def test_sharing_can_be_turned_off() -> None:
    settings = LearnerSettings(compute_dtype="float32", share_prompts=False)
    assert Policy(own_model(), settings).shared_tokens == 0


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "gemma3_window_8"])
def test_streamed_weights_make_another_model_equal(architecture: str) -> None:
    policy = Policy(own_model(architecture), FLOAT32)
    with torch.no_grad():
        for weight in policy.trained().values():
            weight.add_(0.01 * torch.randn_like(weight))
    generator = copy.deepcopy(tiny_model(architecture))
    copy_weights(generator, dict(policy.weights(torch.float32)))
    plain = torch.cat([plain_logprobs(generator, row.prompt_ids, row.completion_ids, 1.0) for row in ROWS])
    torch.testing.assert_close(scored(policy, ROWS).double(), plain, rtol=1e-5, atol=1e-5)
    assert {weight.dtype for _, weight in policy.weights(torch.bfloat16)} == {torch.bfloat16}


def test_the_head_never_holds_the_logits_of_all_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = Policy(own_model(), FLOAT32)
    shapes: list[tuple[int, ...]] = []
    policy.base.get_output_embeddings().register_forward_hook(lambda *call: shapes.append(tuple(call[2].shape)))
    monkeypatch.setattr("actors.learning.policy.CHUNK_BYTES", 3 * 4 * policy.base.config.vocab_size)
    whole = scored(policy, ROWS)
    assert max(math.prod(shape[:-1]) for shape in shapes) == 3
    assert len(whole) == sum(len(row.completion_ids) for row in ROWS), "prompts are never scored"
