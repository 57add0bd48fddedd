"""Padding, masks and positions never show in what is generated."""

import copy

import pytest
import transformers

from actors.engine import GenerationRequest, SamplingParams
from actors.engine.padded import PaddedEngine
from tests.actors.engine.cases import (
    GREEDY,
    LENGTHS,
    SAMPLED,
    assert_same,
    engine,
    prompts,
    reference,
    seen_forwards,
    ways,
)
from tests.actors.engine.tiny import CONFIGS, EOS, GROUPED, VOCABULARY, tiny_model, tiny_tokenizer


@pytest.mark.parametrize(("architecture", "params"), ways(CONFIGS))
def test_batched_equals_single_prompt_without_cache(architecture: str, params: SamplingParams) -> None:
    model = tiny_model(architecture)
    requests = prompts(LENGTHS)
    assert_same(engine(model).generate(requests, params), reference(model, requests, params))


def test_eager_attention_gives_the_same() -> None:
    requests = prompts(LENGTHS)
    for architecture in ("llama", "mistral_window_8", "gemma3_window_8"):
        model = tiny_model(architecture, "eager")
        assert_same(engine(model).generate(requests, SAMPLED), reference(model, requests, SAMPLED))


@pytest.mark.parametrize("pad_token", ["<eos>", "<unk>", None])
def test_pad_token_of_the_tokenizer_does_not_matter(pad_token: str | None) -> None:
    model = tiny_model("llama")
    requests = prompts(LENGTHS)
    tokenizer = tiny_tokenizer(pad_token)
    assert tokenizer.pad_token == pad_token
    got = PaddedEngine(model, tokenizer, batch_size=16).generate(requests, GREEDY)
    assert_same(got, reference(model, requests, GREEDY))


def test_pad_token_outside_the_embedding_never_reaches_it() -> None:
    tokenizer = copy.deepcopy(tiny_tokenizer())
    tokenizer.add_tokens([f"<extra {index}>" for index in range(200)])
    tokenizer.add_special_tokens({"pad_token": "<pad>"})
    assert tokenizer.pad_token_id > VOCABULARY
    requests = prompts([2, 30])
    with seen_forwards(tiny_model("llama")) as calls:
        PaddedEngine(tiny_model("llama"), tokenizer, batch_size=2).generate(requests, GREEDY)
    assert all(int(ids.max()) < VOCABULARY for ids, _ in calls)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_side_of_the_tokenizer_does_not_matter(side: str) -> None:
    model = tiny_model("qwen2")
    tokenizer = copy.deepcopy(tiny_tokenizer())
    tokenizer.padding_side = side
    requests = prompts([1, 9, 20])
    got = PaddedEngine(model, tokenizer, batch_size=3).generate(requests, GREEDY)
    assert_same(got, reference(model, requests, GREEDY))


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "mistral_window_8", "bloom"])
def test_eos_and_pad_ids_at_any_place_of_a_prompt_are_ordinary_tokens(architecture: str) -> None:
    model = tiny_model(architecture)
    bodies = [(EOS,), (EOS, EOS, EOS), (EOS, 50, 60), (50, EOS, 60), (50, 60, EOS), (0, 50, 0), tuple(range(100, 125))]
    requests = [GenerationRequest(str(index), 0, body) for index, body in enumerate(bodies)]
    assert_same(engine(model).generate(requests, GREEDY), reference(model, requests, GREEDY))


@pytest.mark.parametrize("architecture", ["gpt2", "opt", "llama", "qwen3"])
def test_a_short_prompt_beside_a_very_long_one(architecture: str) -> None:
    model = tiny_model(architecture)
    requests = prompts([3, 300, 4, 290])
    assert_same(engine(model).generate(requests, GREEDY), reference(model, requests, GREEDY))


@pytest.mark.parametrize("architecture", ["mistral_window_8", "gemma2_window_8", "gemma3_window_8"])
def test_sliding_window_is_exact_around_its_length(architecture: str) -> None:
    model = tiny_model(architecture)
    params = SamplingParams(max_new_tokens=30)
    requests = prompts([7, 8, 9, 17], seed=4)
    assert_same(engine(model, eos_token_ids=[]).generate(requests, params), reference(model, requests, params, set()))


@pytest.mark.parametrize("architecture", ["llama", "gemma3_window_8"])
def test_positions_come_from_lengths_and_padded_ones_are_zero(architecture: str) -> None:
    model = tiny_model(architecture)
    with seen_forwards(model) as calls:
        engine(model).generate(prompts([3, 4]), SamplingParams(max_new_tokens=3))
    positions = [kwargs["position_ids"].tolist() for _, kwargs in calls]
    assert positions == [[[0, 1, 2, 3], [0, 0, 1, 2]], [[4], [3]], [[5], [4]]]


def test_decode_mask_is_one_row_a_sequence() -> None:
    model = tiny_model("llama")
    with seen_forwards(model) as calls:
        engine(model).generate(prompts([3, 40, 20]), SamplingParams(max_new_tokens=3))
    shapes = [kwargs["attention_mask"].shape for ids, kwargs in calls if ids.shape[1] == 1]
    assert shapes == [(3, 1, 1, 41), (3, 1, 1, 42)]


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_rope_that_depends_on_the_batch_is_refused_by_name(kind: str) -> None:
    factors = {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "original_max_position_embeddings": 64}
    rope = {"rope_type": kind, "rope_theta": 10000.0, "factor": 4.0, **(factors if kind == "longrope" else {})}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**GROUPED, rope_parameters=rope)).eval()
    with pytest.raises(ValueError, match=kind):
        engine(model, batch_size=2)
    requests = prompts([5, 9])
    assert_same(engine(model, batch_size=1).generate(requests, GREEDY), reference(model, requests, GREEDY))


def test_models_with_a_recurrent_state_are_refused() -> None:
    config = transformers.MambaConfig(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=1, state_size=4)
    with pytest.raises(ValueError, match="recurrent state"):
        engine(transformers.MambaForCausalLM(config))
