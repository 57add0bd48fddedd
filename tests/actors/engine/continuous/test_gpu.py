"""What only a GPU can show; and of its code, what any machine can."""

import copy
from typing import Any

import pytest
import torch

from actors.engine import GenerationRequest, SamplingParams
from actors.engine.continuous.attention.varlen import lengths_of
from actors.engine.continuous.build import ContinuousOptions, build_continuous_engine
from actors.engine.continuous.decoder.graphs import GraphDecoder, keys_bucket, rows_bucket
from actors.engine.continuous.engine import ContinuousEngine
from actors.engine.continuous.runs import Run
from actors.engine.continuous.scheduler import Piece
from actors.engine.continuous.sequence import Sequence
from actors.engine.continuous.step import build_step
from tests.actors.engine.cases import LENGTHS, prompts
from tests.actors.engine.continuous.engines import hard_run, same_bits
from tests.actors.engine.tiny import tiny_model, tiny_tokenizer

gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
ON_GPU = SamplingParams(temperature=1, max_new_tokens=40, seed=3)


def on_gpu(architecture: str = "llama_wide", batch_size: int = 7, **options: Any) -> ContinuousEngine:
    model = copy.deepcopy(tiny_model(architecture)).to("cuda", torch.bfloat16)
    settings = ContinuousOptions(batch_size, 64, **{"kv_cache_tokens": 8192, **options})
    return build_continuous_engine(model, tiny_tokenizer(), settings, eos_token_ids=[])


def test_lengths_say_where_each_sequence_lies() -> None:
    first = Sequence(1, 1, 40, 5, own=Run(256, 64))
    second = Sequence(2, 2, 9, 5, own=Run(0, 16), length=10, computed=9)
    step = build_step(
        [Piece(first, 16, 20, False), Piece(second, 9, 1, True)],
        {1: list(range(40)), 2: list(range(10))},
        torch.device("cpu"),
    )
    lengths = lengths_of(step)
    assert lengths.query_starts.tolist() == [0, 20, 21]
    assert lengths.key_starts.tolist()[:2] == [256, 0]
    assert lengths.keys_used.tolist() == [36, 10]
    assert (lengths.most_queries, lengths.most_keys) == (20, 36)
    assert lengths.slots.tolist() == [*range(256 + 16, 256 + 36), 9]


@pytest.mark.parametrize(("rows", "bucket"), [(1, 1), (3, 4), (8, 8), (9, 16), (17, 32), (100, 112)])
def test_rows_are_rounded_up_to_few_sizes(rows: int, bucket: int) -> None:
    assert rows_bucket(rows) == bucket


@pytest.mark.parametrize(("keys", "bucket"), [(1, 512), (512, 512), (513, 1024), (5000, 8192)])
def test_contexts_are_rounded_up_to_powers_of_two(keys: int, bucket: int) -> None:
    assert keys_bucket(keys) == bucket


class TestOnGpu:
    pytestmark = gpu

    @pytest.mark.parametrize("architecture", ["llama_wide", "qwen3_wide", "gpt2", "mistral_window_8"])
    def test_log_probabilities_are_those_of_a_plain_forward_pass(self, architecture: str) -> None:
        model = copy.deepcopy(tiny_model(architecture)).to("cuda", torch.bfloat16)
        requests = prompts(LENGTHS)
        got = on_gpu(architecture).generate(requests, ON_GPU)
        for request, completion in zip(requests, got, strict=True):
            ids = torch.tensor([request.prompt_ids + completion.token_ids], device="cuda")
            with torch.no_grad():
                rows = model(ids).logits[0, len(request.prompt_ids) - 1 : -1].float().log_softmax(-1)
            expected = rows.gather(1, torch.tensor(completion.token_ids, device="cuda")[:, None])[:, 0]
            assert (torch.tensor(completion.logprobs, device="cuda") - expected).abs().mean() < 0.1

    def test_recorded_steps_equal_plain_ones_across_every_bucket(self) -> None:
        requests = prompts([500, 505, 510, *LENGTHS])
        plain, recorded = on_gpu(graphs=False), on_gpu()
        assert isinstance(recorded.decoder, GraphDecoder)
        params = SamplingParams(max_new_tokens=12)
        assert same_bits(recorded.generate(requests, params), plain.generate(requests, params))

    def test_what_is_free_in_the_pool_is_never_read(self) -> None:
        requests = [GenerationRequest(r.problem_id, n, r.prompt_ids) for r in prompts([5, 40, 70]) for n in range(3)]
        clean = on_gpu(graphs=False).generate(requests, ON_GPU)
        poisoned = hard_run(on_gpu(graphs=False), requests, ON_GPU, seed=1)
        assert all(completion.error is None for completion in poisoned)
        assert [len(each.token_ids) for each in poisoned] == [len(each.token_ids) for each in clean]

    def test_updated_weights_reach_recorded_steps(self) -> None:
        changed = copy.deepcopy(tiny_model("llama_wide"))
        with torch.no_grad():
            for parameter in changed.parameters():
                parameter.mul_(1.1)
        engine = on_gpu()
        before = engine.generate(prompts([9]), ON_GPU)
        engine.update_weights(dict(changed.named_parameters()), version=1)
        after = engine.generate(prompts([9]), ON_GPU)
        assert before[0].logprobs != after[0].logprobs

    def test_a_decode_step_waits_for_the_device_once(self) -> None:
        engine = on_gpu(graphs=False)
        engine.add(prompts([5, 9]), ON_GPU)
        for _ in range(3):
            engine.step()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            engine.step()
        copies = [event for event in profile.events() if "Memcpy DtoH" in event.name]
        assert len(copies) == 1
