"""A completion is the same to the bit alone and in any company, whatever happens around it."""

import copy

import pytest
import torch
from transformers import PreTrainedModel

from actors.engine import Completion, GenerationRequest, SamplingParams
from actors.engine.continuous import scheduler
from actors.engine.continuous.policy import Policy
from actors.engine.native import load, unavailable_reason
from tests.actors.engine.cases import GREEDY, KNOWN, LENGTHS, SAMPLED, assert_same, prompts, reference, ways
from tests.actors.engine.continuous.engines import INTERFACE, bfloat16, continuous, hard_run, one_by_one, same_bits
from tests.actors.engine.tiny import tiny_model

ENDS = set(range(2, KNOWN, 25))
LONG = SamplingParams(temperature=1, max_new_tokens=60, seed=7)

_KERNELS = load()
native = pytest.mark.skipif(_KERNELS is None, reason=f"no native kernels: {unavailable_reason()}")
tiles = pytest.mark.skipif(not (_KERNELS and _KERNELS.tiles.available), reason="this processor has no tile unit")


def with_groups(seed: int) -> list[GenerationRequest]:
    """24 requests, among them groups of one prompt."""
    return [
        GenerationRequest(request.problem_id, index, request.prompt_ids)
        for request in prompts([1, 16, 17, 33, 40, 70, 5, 100], seed)
        for index in range(3)
    ]


@native
@pytest.mark.parametrize("architecture", [name for name in INTERFACE if not name.startswith("gpt_oss")])
def test_the_same_bits_alone_and_under_arrivals_finishes_preemption_and_poison(
    architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Admit whatever finds room now, with no thought of the next token.
    monkeypatch.setattr(scheduler, "SAFETY", 100.0)
    monkeypatch.setattr(scheduler, "HEADROOM", 1)
    model = tiny_model(architecture)
    requests = with_groups(seed=1)
    alone = one_by_one(model, requests, LONG, eos_token_ids=ENDS)
    assert len({len(completion.token_ids) for completion in alone}) > 6
    for seed, pool in ((0, 8192), (1, 256)):
        engine = continuous(model, batch_size=9, kv_cache_tokens=pool, eos_token_ids=ENDS)
        assert same_bits(hard_run(engine, requests, LONG, seed), alone)
        assert (engine.progress.preemptions > 0) == (pool == 256)
        assert engine.progress.tokens_sampled == sum(len(completion.token_ids) for completion in alone)


@tiles
@pytest.mark.parametrize("architecture", ["llama_wide", "qwen2", "qwen3_wide", "mistral_window_8"])
def test_the_same_bits_in_bfloat16_where_the_processor_has_a_tile_unit(architecture: str) -> None:
    model = bfloat16(tiny_model(architecture))
    requests = with_groups(seed=2)
    alone = one_by_one(model, requests, LONG, eos_token_ids=ENDS)
    for seed, pool in ((0, 8192), (1, 256)):
        engine = continuous(model, batch_size=40, token_budget=100, kv_cache_tokens=pool, eos_token_ids=ENDS)
        assert engine.decoder.name == "lean"
        assert same_bits(hard_run(engine, requests, LONG, seed), alone)


@native
@pytest.mark.parametrize("budget", [1, 5, 17, 64, 1000])
def test_the_same_bits_however_prompts_are_cut(budget: int) -> None:
    requests = prompts([1, 2, 15, 16, 17, 63, 64, 65, 200])
    whole = continuous(tiny_model("llama_wide"), token_budget=4096).generate(requests, GREEDY)
    assert same_bits(continuous(tiny_model("llama_wide"), token_budget=budget).generate(requests, GREEDY), whole)


@native
def test_the_same_bits_on_one_thread_and_on_two() -> None:
    requests = prompts(LENGTHS)
    alone = continuous(tiny_model("llama_wide")).generate(requests, SAMPLED)
    torch.set_num_threads(2)
    assert same_bits(continuous(tiny_model("llama_wide")).generate(requests, SAMPLED), alone)


@native
def test_the_same_bits_under_every_policy_and_admission() -> None:
    requests = with_groups(seed=3)
    expected = one_by_one(tiny_model("qwen3_wide"), requests, LONG, eos_token_ids=ENDS)
    for name in ("static", "dynamic", "continuous"):
        for admission in ("worst_case", "optimistic"):
            engine = continuous(
                tiny_model("qwen3_wide"),
                policy=Policy(name),  # type: ignore[arg-type]
                admission=admission,
                kv_cache_tokens=700,
                eos_token_ids=ENDS,
            )
            assert same_bits(engine.generate(requests, LONG), expected), (name, admission)


@pytest.mark.parametrize("kernels", [False, True], ids=["torch", "native"])
@pytest.mark.parametrize(("architecture", "params"), ways(INTERFACE))
def test_equals_a_single_prompt_without_cache(architecture: str, params: SamplingParams, kernels: bool) -> None:
    model = tiny_model(architecture)
    requests = prompts(LENGTHS)
    assert_same(continuous(model, kernels=kernels).generate(requests, params), reference(model, requests, params))


@pytest.mark.parametrize("architecture", ["llama_wide", "qwen2", "qwen3_wide", "mistral_window_8"])
def test_fused_operations_equal_transformers_modules(architecture: str) -> None:
    requests = prompts(LENGTHS)
    lean = continuous(tiny_model(architecture))
    plain = continuous(tiny_model(architecture), lean=False)
    assert (lean.decoder.name, plain.decoder.name) == ("lean", "transformers")
    assert_same(lean.generate(requests, SAMPLED), plain.generate(requests, SAMPLED))


@native
@pytest.mark.parametrize("architecture", ["llama_wide", "qwen3_wide", "gpt2"])
def test_bfloat16_is_as_near_to_float32_as_transformers_is(architecture: str) -> None:
    model = tiny_model(architecture)
    requests = prompts([30, 9, 17])
    got = continuous(bfloat16(model), eos_token_ids=[]).generate(requests, LONG)
    ours, theirs = [], []
    for request, completion in zip(requests, got, strict=True):
        exact, rounded = (_logprobs(each, request, completion) for each in (model, bfloat16(model)))
        ours.append(torch.tensor(completion.logprobs) - exact)
        theirs.append(rounded - exact)
    error, usual = torch.cat(ours).abs().mean(), torch.cat(theirs).abs().mean()
    assert 0 < error < 1.3 * usual


def _logprobs(model: PreTrainedModel, request: GenerationRequest, completion: Completion) -> torch.Tensor:
    """(completion's length,) from one plain forward pass."""
    with torch.no_grad():
        logits = model(torch.tensor([request.prompt_ids + completion.token_ids])).logits[0].float()
    rows = logits[len(request.prompt_ids) - 1 : -1].log_softmax(-1)
    return rows.gather(1, torch.tensor(completion.token_ids)[:, None])[:, 0]


@native
def test_a_row_with_nan_logits_fails_alone_and_its_group_with_it() -> None:
    model = copy.deepcopy(tiny_model("llama"))
    with torch.no_grad():
        model.get_input_embeddings().weight[390] = torch.nan
        model.lm_head.weight[390] = 0
    clean = [request for request in prompts(LENGTHS) if 390 not in request.prompt_ids]
    sick = [GenerationRequest("sick", index, (4, 390, 8, 9)) for index in range(3)]
    got = continuous(model, batch_size=16).generate([*clean[:5], *sick, *clean[5:]], GREEDY)
    assert all("not finite" in (completion.error or "") for completion in got[5:8])
    assert_same([*got[:5], *got[8:]], reference(model, clean, GREEDY))
