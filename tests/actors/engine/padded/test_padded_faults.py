"""One bad request harms no other; order, progress and memory."""

import copy
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from transformers import PreTrainedModel

from actors.engine import Engine, GenerationRequest, SamplingParams
from actors.engine.padded.engine import prefill_groups
from tests.actors.engine.cases import (
    GREEDY,
    LENGTHS,
    SAMPLED,
    assert_same,
    engine,
    prompts,
    reference,
)
from tests.actors.engine.tiny import tiny_model


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


def test_aborted_requests_never_come_back_and_the_others_are_untouched() -> None:
    model = tiny_model("llama")
    padded = engine(model, batch_size=4, eos_token_ids=[])
    requests = prompts([40, 39, 38, 37, 5, 4, 3, 2])
    tickets = padded.add(requests, GREEDY)
    for _ in range(3):
        padded.step()
    padded.abort([tickets[1], tickets[6], 10**9])
    done = {}
    while padded.busy:
        done |= dict(padded.step())
    left = [n for n in range(8) if n not in (1, 6)]
    assert sorted(done) == [tickets[n] for n in left]
    assert_same([done[tickets[n]] for n in left], reference(model, [requests[n] for n in left], GREEDY, set()))


def test_weights_updated_in_the_middle_count_from_the_next_token_on() -> None:
    model = copy.deepcopy(tiny_model("llama"))
    request = prompts([9])[0]
    padded = engine(model, eos_token_ids=[])
    [ticket] = padded.add([request], GREEDY)
    for _ in range(6):
        padded.step()
    begun = reference(model, [request], SamplingParams(max_new_tokens=6), set())[0].token_ids
    padded.update_weights({"lm_head.weight": model.lm_head.weight.flip(0).clone()}, version=3)
    done = {}
    while padded.busy:
        done |= dict(padded.step())
    longer = GenerationRequest("longer", 0, request.prompt_ids + begun)
    rest = reference(model, [longer], SamplingParams(max_new_tokens=14), set())[0].token_ids
    assert done[ticket].token_ids == begun + rest
    assert (done[ticket].policy_version, padded.policy_version) == (0, 3)


def test_a_weight_that_does_not_fit_is_refused_before_any_is_changed() -> None:
    model = copy.deepcopy(tiny_model("llama"))
    padded = engine(model)
    kept = model.lm_head.weight.clone()
    for wrong in ({"no.such": torch.ones(1)}, {"model.norm.weight": torch.ones(7)}):
        with pytest.raises(ValueError, match=r"no weights named|has shape"):
            padded.update_weights({"lm_head.weight": torch.zeros_like(kept), **wrong}, version=1)
    assert torch.equal(model.lm_head.weight, kept)
    assert padded.policy_version == 0


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


def test_progress_moves_during_a_long_prefill() -> None:
    """Else a watchdog could not tell it from a hang: prompts of unlike length are passes of their own."""
    padded = engine(tiny_model("llama"), batch_size=4)
    padded.generate(prompts([40, 20, 10, 5]), SamplingParams(max_new_tokens=1))
    assert padded.progress.prefill_passes == 4
    assert padded.progress.decode_steps == 0


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
