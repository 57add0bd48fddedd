import copy
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import transformers
from transformers import GenerationConfig, PreTrainedModel

from actors.engine import Completion, Engine, GenerationRequest, SamplingParams
from actors.engine.padded import PaddedEngine, prefill_groups
from tests.actors.engine.reference import log_softmax, reference_generate
from tests.actors.engine.tiny import CONFIGS, EOS, GROUPED, VOCABULARY, tiny_model, tiny_tokenizer

KNOWN = len(tiny_tokenizer())
LENGTHS = [1, 2, 3, 5, 7, 8, 9, 12, 17, 20, 25, 30, 33, 36, 39, 40]
GREEDY = SamplingParams(max_new_tokens=20)
SAMPLED = SamplingParams(temperature=0.9, max_new_tokens=20, seed=3)
FILTERED = SamplingParams(temperature=1.1, top_p=0.95, top_k=60, min_p=0.01, max_new_tokens=20, seed=5)


def prompts(lengths: list[int], seed: int = 0) -> list[GenerationRequest]:
    """Random prompts of the whole vocabulary; every fourth token is EOS, which here is the pad id too."""
    generator = random.Random(seed)
    return [
        GenerationRequest(
            f"problem {index}",
            0,
            tuple(EOS if generator.random() < 0.25 else generator.randrange(400) for _ in range(n)),
        )
        for index, n in enumerate(lengths)
    ]


def engine(model: PreTrainedModel, batch_size: int = 7, **options: Any) -> PaddedEngine:
    return PaddedEngine(model, tiny_tokenizer(), batch_size=batch_size, **options)


def assert_same(got: list[Completion], expected: list[Completion]) -> None:
    assert [completion.key for completion in got] == [completion.key for completion in expected]
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.token_ids == theirs.token_ids
        assert ours.finish_reason == theirs.finish_reason
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)
        assert ours.sampling_logprobs == pytest.approx(theirs.sampling_logprobs, abs=1e-4)


def reference(
    model: PreTrainedModel, requests: list[GenerationRequest], params: SamplingParams, eos: set[int] | None = None
) -> list[Completion]:
    ends = {EOS} if eos is None else eos
    return [reference_generate(model, request, params, ends, KNOWN) for request in requests]


@contextmanager
def seen_forwards(model: PreTrainedModel) -> Iterator[list[tuple[torch.Tensor, dict[str, Any]]]]:
    """What the model is called with while the context is open."""
    calls: list[tuple[torch.Tensor, dict[str, Any]]] = []
    hook = model.register_forward_pre_hook(
        lambda module, args, kwargs: calls.append((args[0], dict(kwargs))), with_kwargs=True
    )
    try:
        yield calls
    finally:
        hook.remove()


# Padding, masks, positions


@pytest.mark.parametrize("params", [GREEDY, SAMPLED, FILTERED], ids=["greedy", "sampled", "filtered"])
@pytest.mark.parametrize("architecture", CONFIGS)
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


# Stopping and lengths


def free_run(model: PreTrainedModel, requests: list[GenerationRequest], tokens: int = 40) -> list[Completion]:
    return engine(model, batch_size=64, eos_token_ids=[]).generate(requests, SamplingParams(max_new_tokens=tokens))


def test_every_one_of_several_eos_ids_stops_its_own_row_and_no_other() -> None:
    model = tiny_model("llama")
    requests = prompts(LENGTHS)
    free = free_run(model, requests)
    eos = {free[2].token_ids[1], free[5].token_ids[3], free[9].token_ids[5]}
    assert len(eos) == 3
    got = engine(model, batch_size=16, eos_token_ids=eos).generate(requests, SamplingParams(max_new_tokens=40))
    assert_same(got, reference(model, requests, SamplingParams(max_new_tokens=40), eos))
    ended = [completion for completion in got if completion.finish_reason == "eos"]
    assert {completion.token_ids[-1] for completion in ended} == eos
    assert 3 <= len(ended) < len(got)
    for completion in ended:
        assert sum(token in eos for token in completion.token_ids) == 1
        assert len(completion.token_ids) == len(completion.logprobs) == len(completion.sampling_logprobs)


def test_rows_leave_the_batch_as_they_finish_and_no_dead_row_is_sampled() -> None:
    model = tiny_model("llama")
    requests = prompts(LENGTHS)
    eos = {completion.token_ids[4 + index] for index, completion in enumerate(free_run(model, requests)[::3])}
    padded = engine(model, batch_size=16, eos_token_ids=eos)
    with seen_forwards(model) as calls:
        got = padded.generate(requests, SamplingParams(max_new_tokens=40))
    decode_rows = [len(ids) for ids, _ in calls[-padded.progress.decode_steps :]]
    alive = [sum(len(completion.token_ids) > step for completion in got) for step in range(1, len(decode_rows) + 1)]
    assert decode_rows == alive
    assert decode_rows[0] > decode_rows[-1]
    assert padded.progress.tokens_sampled == sum(len(completion.token_ids) for completion in got)
    assert padded.progress.requests_done == len(got)
    assert padded.progress.live_rows == 0


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "mistral_window_8", "gemma3_window_8", "bloom"])
def test_rows_that_finish_at_random_leave_all_others_exact(architecture: str) -> None:
    model = tiny_model(architecture)
    generator = random.Random(1)
    requests = prompts([generator.randint(1, 40) for _ in range(24)], seed=2)
    params = SamplingParams(temperature=1, max_new_tokens=60, seed=1)
    eos = set(range(2, KNOWN, 20))
    got = engine(model, batch_size=12, eos_token_ids=eos).generate(requests, params)
    assert len({len(completion.token_ids) for completion in got}) > 8
    assert_same(got, reference(model, requests, params, eos))


def test_long_completions_outgrow_the_cache_and_stay_exact() -> None:
    model = tiny_model("llama")
    requests = prompts([3, 60, 150])
    params = SamplingParams(temperature=1, max_new_tokens=320, seed=2)
    got = engine(model, eos_token_ids=[]).generate(requests, params)
    assert_same(got, reference(model, requests, params, set()))


def test_truncated_completion_has_exactly_its_tokens_and_no_eos() -> None:
    (got,) = engine(tiny_model("llama"), eos_token_ids=[]).generate(prompts([5]), SamplingParams(max_new_tokens=9))
    assert got.finish_reason == "length"
    assert len(got.token_ids) == len(got.logprobs) == len(got.sampling_logprobs) == 9


def test_stop_string_ends_its_row_with_consistent_ids_and_trimmed_text() -> None:
    model = tiny_model("llama")
    requests = prompts(LENGTHS)
    free = free_run(model, requests)
    whole = free[3].text
    stop = whole[11:14]
    got = engine(model, batch_size=16, eos_token_ids=[]).generate(
        requests, SamplingParams(max_new_tokens=40, stop=(stop,))
    )
    assert got[3].finish_reason == "stop"
    assert got[3].text == whole[: whole.index(stop)]
    decode = tiny_tokenizer().decode
    for stopped, unstopped in zip(got, free, strict=True):
        count = len(stopped.token_ids)
        assert stopped.token_ids == unstopped.token_ids[:count]
        assert len(stopped.logprobs) == len(stopped.sampling_logprobs) == count
        if stopped.finish_reason == "stop":
            assert stop in decode(stopped.token_ids, skip_special_tokens=True)
            assert stop not in decode(stopped.token_ids[:-1], skip_special_tokens=True)


def test_prompts_around_the_context_length_fail_or_are_cut_alone() -> None:
    model = tiny_model("gpt2")
    requests = prompts([5, 511, 512, 513, 600, 509])
    got = engine(model, eos_token_ids=[]).generate(requests, SamplingParams(max_new_tokens=4))
    assert [completion.finish_reason for completion in got] == ["length", "length", "error", "error", "error", "length"]
    assert [len(completion.token_ids) for completion in got] == [4, 1, 0, 0, 0, 3]
    assert "512 tokens leaves no room in the model's context of 512" in (got[2].error or "")
    assert_same(got[:1], reference(model, requests[:1], SamplingParams(max_new_tokens=4), set()))


def test_context_length_can_be_given() -> None:
    padded = engine(tiny_model("llama"), context_length=10, eos_token_ids=[])
    got = padded.generate(prompts([4, 9, 10]), SamplingParams(max_new_tokens=50))
    assert [len(completion.token_ids) for completion in got] == [6, 1, 0]


def test_prompts_that_cannot_be_served_leave_their_neighbours_alone() -> None:
    model = tiny_model("llama")
    requests = prompts([4, 0, 7])
    requests += [GenerationRequest("high", 0, (5, VOCABULARY)), GenerationRequest("low", 0, (-1, 5))]
    got = engine(model).generate(requests, GREEDY)
    assert [completion.error is not None for completion in got] == [False, True, False, True, True]
    assert got[1].error == "the prompt is empty"
    assert "outside 0 to 399" in (got[3].error or "")
    assert_same([got[0], got[2]], reference(model, [requests[0], requests[2]], GREEDY))


def test_no_requests_give_no_completions() -> None:
    assert engine(tiny_model("llama")).generate([], GREEDY) == []


# Sampling


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


# Faults, order, watching


def test_a_row_with_nan_logits_fails_alone() -> None:
    model = copy.deepcopy(tiny_model("llama"))
    assert isinstance(model.lm_head, torch.nn.Linear)
    with torch.no_grad():
        model.get_input_embeddings().weight[390] = torch.nan
        model.lm_head.weight[390] = 0
    clean = [request for request in prompts(LENGTHS) if 390 not in request.prompt_ids]
    requests = [*clean[:5], GenerationRequest("sick", 0, (4, 390, 8, 9)), *clean[5:]]
    got = engine(model, batch_size=16).generate(requests, GREEDY)
    assert got[5].finish_reason == "error"
    assert "not finite" in (got[5].error or "")
    assert_same([*got[:5], *got[6:]], reference(model, clean, GREEDY))


@contextmanager
def memory_for(model: PreTrainedModel, rows: int) -> Iterator[None]:
    """The device runs out of memory on the third pass over more rows than this."""
    passes = 0

    def refuse(module: torch.nn.Module, args: tuple[torch.Tensor]) -> None:
        nonlocal passes
        if len(args[0]) > rows and (passes := passes + 1) % 3 == 0:
            raise torch.OutOfMemoryError("CUDA out of memory")

    hook = model.register_forward_pre_hook(refuse)
    try:
        yield
    finally:
        hook.remove()


def test_batch_is_halved_until_it_fits_in_memory_and_nothing_counts_twice() -> None:
    model = tiny_model("llama")
    requests = prompts(LENGTHS)
    padded = engine(model, batch_size=16)
    with memory_for(model, rows=3):
        got = padded.generate(requests, SAMPLED)
    assert_same(got, reference(model, requests, SAMPLED))
    assert padded.progress.tokens_sampled == sum(len(completion.token_ids) for completion in got)
    assert padded.progress.requests_done == len(requests)


def test_a_request_that_fits_alone_in_no_memory_fails_with_a_clear_text() -> None:
    model = tiny_model("llama")
    padded = engine(model, batch_size=4)
    with memory_for(model, rows=0):
        got = padded.generate(prompts([3, 4, 5]), GREEDY)
    assert [completion.error for completion in got] == ["out of device memory with a batch of one"] * 3
    assert padded.progress.requests_done == 3


def test_completions_come_in_request_order_with_their_keys() -> None:
    requests = [
        GenerationRequest(f"p{index % 3}", index, r.prompt_ids) for index, r in enumerate(prompts([9, 1, 30, 4, 17]))
    ]
    got = engine(tiny_model("llama"), batch_size=2).generate(requests, GREEDY)
    assert [completion.key for completion in got] == [request.key for request in requests]


def test_stopping_early_returns_what_was_finished() -> None:
    model = tiny_model("llama")
    padded = engine(model, batch_size=4, eos_token_ids=[])
    requests = prompts([40, 39, 38, 37, 5, 4, 3, 2])
    got = padded.generate(requests, GREEDY, should_stop=lambda: padded.progress.decode_steps >= 25)
    assert_same(got, reference(model, requests[:4], GREEDY, set()))


def test_progress_can_be_watched_from_another_thread() -> None:
    model = tiny_model("llama")
    padded = engine(model, batch_size=4, eos_token_ids=[])
    seen: set[int] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.001):
            seen.add(padded.progress.tokens_sampled)

    watcher = threading.Thread(target=watch)
    watcher.start()
    padded.generate(prompts([5] * 8), SamplingParams(max_new_tokens=100))
    done.set()
    watcher.join()
    assert len(seen) > 5
    assert padded.progress.tokens_sampled == 800


def test_weights_changed_in_place_are_used_by_the_next_call() -> None:
    model = copy.deepcopy(tiny_model("llama"))
    requests = prompts([5, 9])
    padded = engine(model)
    before = padded.generate(requests, GREEDY)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.3)
    after = padded.generate(requests, GREEDY)
    assert [c.token_ids for c in before] != [c.token_ids for c in after]
    assert_same(after, reference(model, requests, GREEDY))


def test_padded_engine_is_an_engine() -> None:
    padded: Engine = engine(tiny_model("llama"))
    assert padded.progress.requests_done == 0
    with pytest.raises(ValueError, match="batch_size"):
        engine(tiny_model("llama"), batch_size=0)


def test_generate_keeps_no_memory_between_calls() -> None:
    import gc

    padded = engine(tiny_model("llama"))

    def tensors() -> int:
        gc.collect()
        return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())

    padded.generate(prompts(LENGTHS), GREEDY)
    before = tensors()
    for _ in range(5):
        padded.generate(prompts(LENGTHS), GREEDY)
    assert tensors() == before


@pytest.mark.parametrize(
    ("lengths", "groups"),
    [
        ([5], [(0, 1)]),
        ([100, 90, 76, 74, 60, 10], [(0, 3), (3, 5), (5, 6)]),
        ([5000, 5000, 4000], [(0, 1), (1, 2), (2, 3)]),
        ([9000, 8000], [(0, 1), (1, 2)]),
        ([1000] * 20, [(0, 8), (8, 16), (16, 20)]),
    ],
)
def test_prefill_passes_are_of_like_length_and_bounded(lengths: list[int], groups: list[tuple[int, int]]) -> None:
    assert [(group.start, group.stop) for group in prefill_groups(lengths)] == groups
