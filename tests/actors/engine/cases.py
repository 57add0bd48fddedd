"""What the tests of the padded engine share: prompts full of awkward ids, and the plain reference beside the engine."""

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from actors.engine import Completion, GenerationRequest, SamplingParams
from actors.engine.padded import PaddedEngine
from tests.actors.engine.reference import reference_generate
from tests.actors.engine.tiny import EOS, tiny_tokenizer

KNOWN = len(tiny_tokenizer())
LENGTHS = [1, 2, 3, 5, 7, 8, 9, 12, 17, 20, 25, 30, 33, 36, 39, 40]
GREEDY = SamplingParams(max_new_tokens=20)
SAMPLED = SamplingParams(temperature=0.9, max_new_tokens=20, seed=3)
FILTERED = SamplingParams(temperature=1.1, top_p=0.95, top_k=60, min_p=0.01, max_new_tokens=20, seed=5)


def ways(architectures: Iterable[str]) -> list[Any]:
    """(architecture, params): sampling from all of them, since it sees the whole distribution. How else a token is chosen
    does not depend on where its logits come from, so two architectures stand for all."""
    others = [(name, params) for name in ("llama", "mistral_window_8") for params in ("greedy", "filtered")]
    chosen = {"greedy": GREEDY, "sampled": SAMPLED, "filtered": FILTERED}
    pairs = [*((name, "sampled") for name in architectures), *others]
    return [pytest.param(name, chosen[params], id=f"{name}-{params}") for name, params in pairs]


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
    ends = frozenset({EOS} if eos is None else eos)
    return [_reference(model, request, params, ends) for request in requests]


@cache
def _reference(
    model: PreTrainedModel, request: GenerationRequest, params: SamplingParams, eos: frozenset[int]
) -> Completion:
    """Remembered, because several engines are held against the same: a model must not change once it was asked."""
    return reference_generate(model, request, params, set(eos), KNOWN)


def free_run(model: PreTrainedModel, requests: list[GenerationRequest], tokens: int = 40) -> list[Completion]:
    return engine(model, batch_size=64, eos_token_ids=[]).generate(requests, SamplingParams(max_new_tokens=tokens))


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
