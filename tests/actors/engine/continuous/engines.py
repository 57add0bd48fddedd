"""Continuous engines over tiny models, and a run of one that spares nothing."""

import copy
import random
from typing import Any

import torch
from transformers import PreTrainedModel

from actors.engine import Completion, GenerationRequest, SamplingParams
from actors.engine.continuous.build import ContinuousOptions, build_continuous_engine
from actors.engine.continuous.engine import ContinuousEngine
from tests.actors.engine.tiny import tiny_tokenizer

INTERFACE = [
    "llama",
    "llama_wide",
    "qwen2",
    "qwen3",
    "qwen3_wide",
    "mistral_window_8",
    "gemma2_window_8",
    "gemma3_window_8",
    "gpt2",
    "opt",
    "gpt_neox",
    "gpt_oss_window_8",
]
"""Architectures that support transformers' attention interface."""


def continuous(
    model: PreTrainedModel, batch_size: int = 7, token_budget: int | None = 32, **options: Any
) -> ContinuousEngine:
    """An engine over a copy of `model`, which it would otherwise take over."""
    given = {name: options.pop(name) for name in ("eos_token_ids", "context_length") if name in options}
    settings = ContinuousOptions(batch_size, token_budget, **{"kv_cache_tokens": 8192, **options})
    return build_continuous_engine(copy.deepcopy(model), tiny_tokenizer(), settings, **given)


def one_by_one(
    model: PreTrainedModel, requests: list[GenerationRequest], params: SamplingParams, **options: Any
) -> list[Completion]:
    engine = continuous(model, batch_size=1, **options)
    return [engine.generate([request], params)[0] for request in requests]


def hard_run(
    engine: ContinuousEngine, requests: list[GenerationRequest], params: SamplingParams, seed: int
) -> list[Completion]:
    """Requests arrive one after the other while others run; what is free in the pool is NaN at every step."""
    chance = random.Random(seed)
    order = chance.sample(range(len(requests)), len(requests))
    tickets: dict[int, int] = {}
    done: dict[int, Completion] = {}
    while len(done) < len(requests):
        while order and chance.random() < 0.7:
            index = order.pop()
            [ticket] = engine.add([requests[index]], params)
            tickets[ticket] = index
        done |= {tickets[ticket]: completion for ticket, completion in engine.step()}
        engine.scheduler.check()
        for start, size in engine.scheduler.runs.gaps:
            engine.attention.poison(start, size)
    return [done[index] for index in range(len(requests))]


def same_bits(got: list[Completion], expected: list[Completion]) -> bool:
    """Equal in everything but the time they took."""

    def facts(completion: Completion) -> tuple[Any, ...]:
        return (completion.key, completion.token_ids, completion.logprobs, completion.sampling_logprobs)

    return [facts(each) for each in got] == [facts(each) for each in expected]


def bfloat16(model: PreTrainedModel) -> PreTrainedModel:
    return copy.deepcopy(model).to(torch.bfloat16)
