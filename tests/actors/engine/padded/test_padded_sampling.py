"""A sample depends on its identity alone, and its log-probabilities are those of the policy."""

import copy
import random

import pytest
import torch
from transformers import GenerationConfig

from actors.engine import GenerationRequest, SamplingParams
from tests.actors.engine.cases import (
    GREEDY,
    KNOWN,
    LENGTHS,
    SAMPLED,
    assert_same,
    engine,
    free_run,
    prompts,
    reference,
)
from tests.actors.engine.reference import log_softmax
from tests.actors.engine.tiny import EOS, VOCABULARY, tiny_model


def test_a_sample_does_not_depend_on_batch_size_order_or_neighbours() -> None:
    model = tiny_model("qwen3")
    requests = [GenerationRequest(r.problem_id, index, r.prompt_ids) for r in prompts(LENGTHS) for index in range(2)]
    params = SamplingParams(temperature=1, max_new_tokens=30, seed=11)
    eos = set(range(2, KNOWN, 25))
    expected = {c.key: c for c in engine(model, batch_size=1, eos_token_ids=eos).generate(requests, params)}
    for batch_size in (7, 32):
        shuffled = random.Random(batch_size).sample(requests, len(requests))
        got = engine(model, batch_size=batch_size, eos_token_ids=eos).generate(shuffled, params)
        assert_same(got, [expected[request.key] for request in shuffled])


def test_samples_of_one_prompt_differ_and_seeds_differ() -> None:
    prompt = prompts([10])[0].prompt_ids
    requests = [GenerationRequest("p", index, prompt) for index in range(8)]
    padded = engine(tiny_model("llama"), eos_token_ids=[])
    runs = [padded.generate(requests, SamplingParams(temperature=1, seed=seed)) for seed in (0, 0, 1)]
    texts = [[completion.token_ids for completion in run] for run in runs]
    assert texts[0] == texts[1]
    assert len({*texts[0], *texts[2]}) == 16


def test_equal_prompts_of_different_problems_differ() -> None:
    prompt = prompts([10])[0].prompt_ids
    requests = [GenerationRequest(name, 0, prompt) for name in ("a", "b")]
    first, second = engine(tiny_model("llama")).generate(requests, SamplingParams(temperature=1))
    assert first.token_ids[:8] != second.token_ids[:8]


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_generation_config_of_the_checkpoint_has_no_say_but_in_eos(params: SamplingParams) -> None:
    hostile = copy.deepcopy(tiny_model("llama"))
    hostile.generation_config = GenerationConfig(
        do_sample=True,
        temperature=0.1,
        top_k=1,
        top_p=0.1,
        repetition_penalty=5.0,
        max_length=3,
        no_repeat_ngram_size=1,
    )
    requests = prompts(LENGTHS)
    assert_same(engine(hostile).generate(requests, params), reference(tiny_model("llama"), requests, params))


def test_eos_ids_of_generation_config_config_and_tokenizer_all_end_a_row() -> None:
    model = copy.deepcopy(tiny_model("llama"))
    free = free_run(model, prompts(LENGTHS))
    listed, configured = free[0].token_ids[5], free[1].token_ids[6]
    model.generation_config.eos_token_id = [listed, 311]
    model.config.eos_token_id = configured
    got = engine(model).generate(prompts(LENGTHS), SamplingParams(max_new_tokens=40))
    assert_same(
        got, reference(model, prompts(LENGTHS), SamplingParams(max_new_tokens=40), {listed, 311, configured, EOS})
    )


def test_logprobs_are_those_of_one_plain_forward_pass() -> None:
    model = tiny_model("llama")
    (request,) = prompts([6])
    params = SamplingParams(temperature=0.7, top_p=0.8, top_k=20, max_new_tokens=25)
    got = engine(model, eos_token_ids=[]).generate([request, *prompts([30, 31])], params)[0]
    with torch.no_grad():
        logits = model(torch.tensor([request.prompt_ids + got.token_ids])).logits[0, 5:-1].double().numpy()
    for row, token, raw, tempered in zip(logits, got.token_ids, got.logprobs, got.sampling_logprobs, strict=True):
        assert raw == pytest.approx(log_softmax(row)[token], abs=1e-4)
        assert tempered == pytest.approx(log_softmax(row / 0.7)[token], abs=1e-4)


def test_bfloat16_logprobs_stay_near_a_plain_forward_pass_without_bias() -> None:
    model = copy.deepcopy(tiny_model("llama")).bfloat16()
    requests = prompts(LENGTHS)
    got = engine(model, eos_token_ids=[]).generate(requests, SamplingParams(temperature=1, max_new_tokens=30))
    differences = []
    for request, completion in zip(requests, got, strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([request.prompt_ids + completion.token_ids])).logits[0].float()
        rows = logits[len(request.prompt_ids) - 1 : -1].log_softmax(-1)
        differences.append(
            torch.tensor(completion.logprobs) - rows.gather(1, torch.tensor(completion.token_ids)[:, None])[:, 0]
        )
    difference = torch.cat(differences)
    k3 = (torch.exp(-difference) - 1 + difference).mean()
    print(f"bf16: mean |d| {difference.abs().mean():.4f}, max {difference.abs().max():.4f}, k3 {k3:.2e}")
    assert difference.abs().mean() < 0.02
    assert difference.mean().abs() < 3 * difference.std() / len(difference) ** 0.5 + 1e-3


def test_ids_the_tokenizer_does_not_know_are_never_sampled() -> None:
    got = engine(tiny_model("llama"), batch_size=32, eos_token_ids=[]).generate(
        [GenerationRequest("p", index, (5, 6, 7)) for index in range(32)],
        SamplingParams(temperature=5, max_new_tokens=50),
    )
    assert KNOWN < VOCABULARY
    assert max(token for completion in got for token in completion.token_ids) < KNOWN
