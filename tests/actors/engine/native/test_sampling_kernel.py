"""The native sampler against the one of torch. Their shared rules are tested in test_token_sampling.py."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from actors.engine import native
from actors.engine.native.kernels import Kernels
from actors.engine.requests import SamplingParams
from actors.engine.sampling import Sampled, sample
from tests.actors.engine.native.test_attention import DTYPES, normal

GREEDY = SamplingParams()
PARAMS = [
    SamplingParams(temperature=1),
    SamplingParams(temperature=0.6),
    SamplingParams(temperature=0.8, top_p=0.95),
    SamplingParams(temperature=2.5, top_p=0.5),
    SamplingParams(temperature=1, top_k=20),
    SamplingParams(temperature=1, top_k=3000, top_p=0.9, min_p=0.001),
    SamplingParams(temperature=1.5, min_p=0.01),
]


def both(
    logits: Tensor, params: SamplingParams, uniform: Tensor | None, monkeypatch: pytest.MonkeyPatch, limit: int | None
) -> tuple[Sampled, Sampled]:
    ours = sample(logits, params, uniform, limit)
    with monkeypatch.context() as patch:
        patch.setattr(native, "load", lambda: None)
        return ours, sample(logits, params, uniform, limit)


def neighbours(
    logits: Tensor, params: SamplingParams, uniform: Tensor, monkeypatch: pytest.MonkeyPatch, limit: int | None
) -> list[set[int]]:
    """What torch draws a little below and a little above each number."""
    found: list[set[int]] = [set() for _ in logits]
    with monkeypatch.context() as patch:
        patch.setattr(native, "load", lambda: None)
        for shift in (-1e-6, 0, 1e-6):
            for row, token in zip(
                found, sample(logits, params, (uniform + shift).clamp(0, 1 - 1e-12), limit).ids.tolist(), strict=True
            ):
                row.add(token)
    return found


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("params", PARAMS, ids=str)
@pytest.mark.parametrize(("size", "limit", "spread"), [(49152, None, 2), (5003, 4990, 1), (17, 9, 3)])
def test_tokens_and_logprobs_are_those_of_torch(
    kernels: Kernels,
    monkeypatch: pytest.MonkeyPatch,
    params: SamplingParams,
    size: int,
    limit: int | None,
    spread: float,
    dtype: torch.dtype,
) -> None:
    rows = 16 if size > 10_000 else 200
    logits = (normal(0, rows, size) * spread).to(dtype)
    uniform = torch.rand(rows, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ours, theirs = both(logits, params, uniform, monkeypatch, limit)
    near = neighbours(logits, params, uniform, monkeypatch, limit)
    assert all(token in tokens for token, tokens in zip(ours.ids.tolist(), near, strict=True))
    same = ours.ids == theirs.ids
    assert same.float().mean() > 0.95
    for got, expected in zip(ours[1:], theirs[1:], strict=True):
        torch.testing.assert_close(got[same], expected[same], atol=1e-5, rtol=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("size", "limit"), [(49152, None), (5003, 4990), (16, 1)])
def test_greedy_is_that_of_torch(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch, size: int, limit: int | None, dtype: torch.dtype
) -> None:
    logits = normal(0, 100, size).to(dtype)
    logits[50:] = logits[50:].round()  # many equal maxima
    logits[:25] *= 1e-3  # many that are almost equal
    ours, theirs = both(logits, GREEDY, None, monkeypatch, limit)
    assert ours.ids.equal(theirs.ids)
    for got, expected in zip(ours[1:], theirs[1:], strict=True):
        torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("params", [GREEDY, *PARAMS], ids=str)
def test_a_row_is_the_same_to_the_bit_alone_on_any_thread_and_in_any_layout(
    kernels: Kernels, params: SamplingParams
) -> None:
    logits = normal(0, 30, 3000).bfloat16()
    uniform = torch.rand(30, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    whole = sample(logits, params, uniform, 2990)
    alone = [sample(logits[i : i + 1], params, uniform[i : i + 1], 2990) for i in range(30)]
    torch.set_num_threads(2)
    threaded = sample(logits, params, uniform, 2990)
    strided = sample(torch.stack((logits, logits), 1)[:, 1], params, uniform, 2990)
    transposed = sample(logits.t().contiguous().t(), params, uniform, 2990)
    for got in (Sampled(*(torch.cat(parts) for parts in zip(*alone, strict=True))), threaded, strided, transposed):
        assert all(a.equal(b) for a, b in zip(got, whole, strict=True))


def test_types_that_the_kernel_does_not_know_are_widened(kernels: Kernels) -> None:
    logits = normal(0, 20, 100).half()
    uniform = torch.rand(20, dtype=torch.float64)
    params = replace(PARAMS[2], top_k=50)
    assert sample(logits, params, uniform).ids.equal(sample(logits.float(), params, uniform).ids)
    assert sample(logits.double(), params, uniform).ids.equal(sample(logits.float(), params, uniform).ids)


def test_no_rows_draw_no_tokens(kernels: Kernels) -> None:
    assert [len(part) for part in sample(torch.empty(0, 50), GREEDY)] == [0, 0, 0]


def test_wrong_arguments_are_refused(kernels: Kernels) -> None:
    logits, uniform = torch.zeros(2, 10), torch.zeros(2, dtype=torch.float64)
    plain = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "uniform": uniform, "vocab_limit": 10}
    kernels.sample(logits, **plain)
    for wrong in (
        {"uniform": None},
        {"uniform": uniform.float()},
        {"uniform": uniform[:1]},
        {"vocab_limit": 11},
        {"vocab_limit": 0},
    ):
        with pytest.raises(ValueError, match="sample"):
            kernels.sample(logits, **{**plain, **wrong})
    for other in (logits.half(), logits.t()):
        with pytest.raises(ValueError, match="sample"):
            kernels.sample(other, **plain)
