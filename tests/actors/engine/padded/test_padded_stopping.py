"""Each row ends by itself, at the right place."""

import random

import pytest

from actors.engine import GenerationRequest, SamplingParams
from tests.actors.engine.cases import (
    GREEDY,
    KNOWN,
    LENGTHS,
    assert_same,
    engine,
    free_run,
    prompts,
    reference,
    seen_forwards,
)
from tests.actors.engine.tiny import VOCABULARY, tiny_model, tiny_tokenizer


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
