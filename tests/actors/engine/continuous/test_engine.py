"""The engine as its callers see it: groups, weights, faults, memory."""

import copy
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
import transformers
from transformers import PreTrainedModel

from actors.engine import Completion, Engine, GenerationRequest, SamplingParams
from actors.engine.continuous.attention.interface import UnsupportedModelError
from actors.engine.continuous.build import ContinuousOptions, build_continuous_engine
from actors.engine.continuous.engine import ContinuousEngine
from tests.actors.engine.cases import GREEDY, LENGTHS, SAMPLED, assert_same, prompts, reference
from tests.actors.engine.continuous.engines import bfloat16, continuous, one_by_one, same_bits
from tests.actors.engine.tiny import GROUPED, tiny_model, tiny_tokenizer

GROUP = [GenerationRequest("p", index, prompts([70])[0].prompt_ids) for index in range(8)]


def test_continuous_engine_is_an_engine() -> None:
    engine: Engine = continuous(tiny_model("llama"))
    assert not engine.busy
    assert engine.step() == []
    assert engine.generate([], GREEDY) == []


@pytest.mark.parametrize("kernels", [True, False], ids=["native", "torch"])
def test_a_group_runs_its_prompt_once_and_its_samples_are_those_of_single_requests(kernels: bool) -> None:
    params = SamplingParams(temperature=1, max_new_tokens=20, seed=4)
    engine = continuous(tiny_model("llama"), batch_size=8, kernels=kernels, eos_token_ids=[])
    got = engine.generate(GROUP, params)
    assert engine.progress.prompt_tokens == 70 - 1
    assert engine.progress.prefix_tokens_shared == 7 * 70
    assert len({completion.token_ids for completion in got}) == 8
    alone = one_by_one(tiny_model("llama"), GROUP, params, kernels=kernels, eos_token_ids=[])
    assert_same(got, alone)


def test_a_group_larger_than_the_batch_does_not_run_its_prompt_again() -> None:
    engine = continuous(tiny_model("llama"), batch_size=3, eos_token_ids=[])
    got = engine.generate(GROUP, SAMPLED)
    assert engine.progress.prompt_tokens < 70 + 5 * 16
    assert same_bits(got, one_by_one(tiny_model("llama"), GROUP, SAMPLED, eos_token_ids=[]))


def test_groups_whose_samples_are_as_many_as_the_rows_of_a_step_get_their_own_logits() -> None:
    """A step of two prompts has 16 rows of logits, most of them to fill it up: as many as two groups of eight need."""
    requests = [
        GenerationRequest(request.problem_id, index, request.prompt_ids)
        for request in prompts([9, 12])
        for index in range(8)
    ]
    got = continuous(tiny_model("llama"), batch_size=16, token_budget=64).generate(requests, SAMPLED)
    assert same_bits(got, one_by_one(tiny_model("llama"), requests, SAMPLED))


def test_requests_with_different_sampling_run_together() -> None:
    model = tiny_model("qwen3")
    requests = prompts(LENGTHS)
    engine = continuous(model, batch_size=16)
    tickets = engine.add(requests[:8], GREEDY) + engine.add(requests[8:], SAMPLED)
    done: dict[int, Completion] = {}
    most = 0
    while engine.busy:
        done |= dict(engine.step())
        most = max(most, engine.progress.live_rows)
    assert most == 16
    expected = reference(model, requests[:8], GREEDY) + reference(model, requests[8:], SAMPLED)
    assert_same([done[ticket] for ticket in tickets], expected)


@pytest.mark.parametrize("architecture", ["llama_wide", "qwen3_wide", "qwen2", "gpt2"])
def test_updated_weights_reach_every_fused_view_and_tied_weights_stay_tied(architecture: str) -> None:
    model = tiny_model(architecture)
    engine = continuous(model)
    requests = prompts(LENGTHS)
    engine.generate(requests, GREEDY)
    changed = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in changed.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    weights = dict(changed.named_parameters())
    engine.update_weights(weights, version=5)
    got = engine.generate(requests, GREEDY)
    assert_same(got, reference(changed, requests, GREEDY))
    assert {completion.policy_version for completion in got} == {5}
    fresh = continuous(changed)
    assert same_bits(got, fresh.generate(requests, GREEDY))


@pytest.mark.parametrize("architecture", ["llama_wide", "qwen2"])
def test_updated_weights_in_bfloat16_are_those_of_a_fresh_engine(architecture: str) -> None:
    model = bfloat16(tiny_model(architecture))
    engine = continuous(model)
    changed = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in changed.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    engine.update_weights({name: weight.float() for name, weight in changed.named_parameters()}, version=1)
    requests = prompts(LENGTHS)
    assert same_bits(engine.generate(requests, GREEDY), continuous(changed).generate(requests, GREEDY))


@pytest.mark.parametrize("name", ["model.embed_tokens.weight", "model.layers.1.self_attn.k_proj.weight"])
def test_a_single_updated_weight_is_enough(name: str) -> None:
    model = copy.deepcopy(tiny_model("llama_wide"))
    engine = continuous(model)
    with torch.no_grad():
        model.get_parameter(name).mul_(-1.1)
    engine.update_weights({name: model.get_parameter(name)}, version=1)
    assert_same(engine.generate(prompts(LENGTHS), GREEDY), reference(model, prompts(LENGTHS), GREEDY))


def test_weights_updated_in_the_middle_leave_nothing_of_the_old_ones_but_tokens() -> None:
    model = tiny_model("llama")
    engine = continuous(model, eos_token_ids=[])
    requests = [*GROUP[:3], *prompts([9, 40])]
    tickets = engine.add(requests, GREEDY)
    for _ in range(8):
        assert engine.step() == []
    begun = {ticket: list(engine._rows[ticket].token_ids) for ticket in tickets}
    changed = copy.deepcopy(model)
    with torch.no_grad():
        changed.lm_head.weight.copy_(changed.lm_head.weight.flip(0))
        changed.model.layers[0].mlp.up_proj.weight.mul_(0.5)
    engine.update_weights(dict(changed.named_parameters()), version=3)
    done: dict[int, Completion] = {}
    while engine.busy:
        done |= dict(engine.step())
    for ticket, request in zip(tickets, requests, strict=True):
        prompt = request.prompt_ids + tuple(begun[ticket])
        rest = SamplingParams(max_new_tokens=20 - len(begun[ticket]))
        [expected] = reference(changed, [GenerationRequest("rest", 0, prompt)], rest, set())
        assert done[ticket].token_ids == (*begun[ticket], *expected.token_ids)
        assert done[ticket].policy_version == (0 if begun[ticket] else 3)


def test_weights_that_do_not_fit_are_refused_before_any_is_changed() -> None:
    for architecture in ("llama_wide", "gpt2"):
        engine = continuous(tiny_model(architecture))
        before = engine.generate(prompts([9]), GREEDY)
        embedding = next(name for name, _ in tiny_model(architecture).named_parameters())
        good = {embedding: torch.zeros_like(tiny_model(architecture).get_parameter(embedding))}
        for wrong in ({"no.such": torch.ones(1)}, {embedding: torch.ones(3, 3)}):
            with pytest.raises(ValueError, match=r"no weights named|has shape"):
                engine.update_weights({**good, **wrong}, version=1)
        assert engine.policy_version == 0
        assert same_bits(engine.generate(prompts([9]), GREEDY), before)


def test_aborted_requests_never_come_back_and_the_others_are_untouched() -> None:
    engine = continuous(tiny_model("llama"), batch_size=4, eos_token_ids=[])
    requests = [*GROUP[:3], *prompts([40, 3, 5, 60])]
    tickets = engine.add(requests, GREEDY)
    for _ in range(4):
        engine.step()
    engine.abort([tickets[0], tickets[4], tickets[6], 10**9])
    done: dict[int, Completion] = {}
    while engine.busy:
        done |= dict(engine.step())
        engine.scheduler.check()
    left = [1, 2, 3, 5]
    assert sorted(done) == [tickets[n] for n in left]
    assert_same(
        [done[tickets[n]] for n in left], reference(tiny_model("llama"), [requests[n] for n in left], GREEDY, set())
    )


def test_a_request_larger_than_the_pool_fails_alone_and_says_what_to_raise() -> None:
    engine = continuous(tiny_model("llama"), kv_cache_tokens=64, eos_token_ids=[])
    got = engine.generate(prompts([50, 10, 60]), GREEDY)
    assert [completion.finish_reason for completion in got] == ["error", "length", "error"]
    assert "69 tokens of key-value cache, and there are 64: raise generation.kv_cache_tokens" in (got[0].error or "")


@contextmanager
def memory_for(engine: ContinuousEngine, rows: int) -> Iterator[None]:
    """The device runs out of memory on the third step over more sequences than this."""
    plain, passes = engine.decoder.forward, 0

    def refuse(step: object) -> torch.Tensor:
        nonlocal passes
        if len(step.spans) > rows and (passes := passes + 1) % 3 == 0:  # type: ignore[attr-defined]
            raise torch.OutOfMemoryError("CUDA out of memory")
        return plain(step)  # type: ignore[arg-type]

    engine.decoder.forward = refuse  # type: ignore[method-assign]
    yield


def test_rows_are_halved_until_a_step_fits_in_memory_and_nothing_counts_twice() -> None:
    requests = prompts(LENGTHS)
    engine = continuous(tiny_model("llama"), batch_size=16)
    with memory_for(engine, rows=3):
        got = engine.generate(requests, SAMPLED)
    assert same_bits(got, one_by_one(tiny_model("llama"), requests, SAMPLED))
    assert engine.progress.tokens_sampled == sum(len(completion.token_ids) for completion in got)


def test_memory_that_runs_out_while_tokens_are_drawn_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [*GROUP[:3], *prompts(LENGTHS)]
    engine = continuous(tiny_model("llama"), batch_size=8)
    plain, calls = engine._keeper.advance, 0

    def refuse(*arguments: object) -> list[bool]:
        nonlocal calls
        if (calls := calls + 1) == 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return plain(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(engine._keeper, "advance", refuse)
    got = engine.generate(requests, SAMPLED)
    assert engine.scheduler.batch_size == 4
    assert same_bits(got, one_by_one(tiny_model("llama"), requests, SAMPLED))


def test_a_request_that_fits_alone_in_no_memory_fails_with_a_clear_text() -> None:
    engine = continuous(tiny_model("llama"), batch_size=4)
    with memory_for(engine, rows=0):
        got = engine.generate(prompts([3, 4, 5]), GREEDY)
    assert {completion.error for completion in got} == {"out of device memory with a batch of one"}


@pytest.mark.parametrize("architecture", ["bloom", "falcon", "falcon_alibi"])
def test_architectures_outside_the_interface_are_refused_by_name_and_left_as_they_were(architecture: str) -> None:
    model = copy.deepcopy(tiny_model(architecture))
    before = model.config._attn_implementation
    with pytest.raises(UnsupportedModelError, match=r"(Bloom|Falcon)ForCausalLM does not support"):
        build_continuous_engine(model, tiny_tokenizer(), ContinuousOptions(2))
    assert model.config._attn_implementation == before


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_rope_that_depends_on_the_batch_is_refused_by_name(kind: str) -> None:
    factors = {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "original_max_position_embeddings": 64}
    rope = {"rope_type": kind, "rope_theta": 10000.0, "factor": 4.0, **(factors if kind == "longrope" else {})}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**GROUPED, rope_parameters=rope)).eval()
    with pytest.raises(UnsupportedModelError, match=kind):
        build_continuous_engine(model, tiny_tokenizer(), ContinuousOptions(2))


def test_an_attention_argument_that_nobody_knows_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    model = copy.deepcopy(tiny_model("llama"))
    attention = type(model.model.layers[0].self_attn)
    plain = attention.forward

    def forward(self: torch.nn.Module, *args: object, **kwargs: object) -> object:
        return plain(self, *args, **{**kwargs, "position_bias": torch.zeros(1)})

    monkeypatch.setattr(attention, "forward", forward)
    with pytest.raises(UnsupportedModelError, match="LlamaAttention asks for position_bias"):
        build_continuous_engine(model, tiny_tokenizer(), ContinuousOptions(2))


def test_a_model_that_the_engine_would_falsify_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model scales its scores in a way that the attention call does not tell."""
    model = copy.deepcopy(tiny_model("llama"))
    attention = type(model.model.layers[0].self_attn)
    plain = attention.forward

    def forward(self: torch.nn.Module, hidden_states: torch.Tensor, **kwargs: object) -> object:
        inside = self.config._attn_implementation == "mathlete"  # type: ignore[union-attr]
        return plain(self, hidden_states * (0.5 if inside else 1.0), **kwargs)

    monkeypatch.setattr(attention, "forward", forward)
    with pytest.raises(UnsupportedModelError, match="differ from transformers' own"):
        build_continuous_engine(model, tiny_tokenizer(), ContinuousOptions(2))
    assert model.config._attn_implementation == "sdpa"


def test_a_fused_decoder_that_falsifies_the_model_is_no_reason_to_fall_back_silently(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from actors.engine.continuous.decoder.operations import TorchOperations

    monkeypatch.setattr(TorchOperations, "silu_mul", lambda self, gate_up: gate_up.chunk(2, dim=-1)[1])
    with pytest.raises(ValueError, match=r"fused decoder falsifies this model .*set generation\.engine to padded"):
        continuous(tiny_model("llama"), kernels=False)


def test_two_hundred_rounds_leave_memory_and_pool_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = continuous(tiny_model("llama"), batch_size=8, kv_cache_tokens=1024)
    requests = [GenerationRequest(str(n % 4), n, prompts([5, 20, 33, 40])[n % 4].prompt_ids) for n in range(8)]

    def resident() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1])

    for round_ in range(200):
        engine.generate(requests, SamplingParams(temperature=1, max_new_tokens=4, seed=round_))
        assert engine.scheduler.runs.free == 1024
        if round_ == 50:
            before = resident()
    assert resident() < 1.02 * before
    assert not engine._rows and not engine._prompts and not engine._tokens


def test_a_model_is_of_no_use_to_others_but_its_weights_are_not_kept_twice() -> None:
    model: PreTrainedModel = copy.deepcopy(tiny_model("llama_wide"))
    before = sum(parameter.numel() for parameter in model.parameters())
    build_continuous_engine(model, tiny_tokenizer(), ContinuousOptions(2, kv_cache_tokens=64))
    assert sum(parameter.numel() for parameter in model.parameters()) < before / 2


def test_stop_strings_end_their_row_with_consistent_ids_and_trimmed_text() -> None:
    model = tiny_model("llama")
    requests = prompts(LENGTHS)
    free = continuous(model, eos_token_ids=[]).generate(requests, SamplingParams(max_new_tokens=40))
    stop = free[3].text[11:14]
    got = continuous(model, eos_token_ids=[]).generate(requests, SamplingParams(max_new_tokens=40, stop=(stop,)))
    assert got[3].finish_reason == "stop"
    assert got[3].text == free[3].text[: free[3].text.index(stop)]
    for stopped, unstopped in zip(got, free, strict=True):
        assert stopped.token_ids == unstopped.token_ids[: len(stopped.token_ids)]
        assert len(stopped.logprobs) == len(stopped.token_ids)


def test_prompts_around_the_context_length_fail_or_are_cut_alone() -> None:
    engine = continuous(tiny_model("gpt2"), token_budget=100, eos_token_ids=[])
    got = engine.generate(prompts([5, 511, 512, 513, 0, 509]), SamplingParams(max_new_tokens=4))
    assert [completion.finish_reason for completion in got] == ["length", "length", "error", "error", "error", "length"]
    assert [len(completion.token_ids) for completion in got] == [4, 1, 0, 0, 0, 3]


def test_generation_config_of_the_checkpoint_has_no_say() -> None:
    hostile = copy.deepcopy(tiny_model("llama"))
    hostile.generation_config = transformers.GenerationConfig(
        do_sample=True, temperature=0.1, top_k=1, repetition_penalty=5.0, max_length=3
    )
    requests = prompts(LENGTHS)
    assert_same(continuous(hostile).generate(requests, SAMPLED), reference(tiny_model("llama"), requests, SAMPLED))
