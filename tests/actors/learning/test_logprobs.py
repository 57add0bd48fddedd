import pytest
import torch
from torch import Tensor

from actors.engine import native
from actors.learning.logprobs import CHUNK_BYTES, token_statistics


def material(seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    hidden = torch.randn(7, 5, dtype=dtype, generator=draw).requires_grad_()
    weight = torch.randn(11, 5, dtype=dtype, generator=draw).requires_grad_()
    return hidden, weight, torch.randint(11, (7, 3), generator=draw)


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.7])
@pytest.mark.parametrize("tokens_at_once", [1, 3, 100])
def test_values_and_gradients_are_those_of_log_softmax(temperature: float, tokens_at_once: int) -> None:
    hidden, weight, ids = material()
    found = token_statistics(hidden, lambda h: h @ weight.T, ids, temperature, tokens_at_once * 4 * 11, 11)
    whole = (hidden @ weight.T / temperature).log_softmax(dim=-1)
    entropy = -(whole.exp() * whole).sum(dim=-1)
    torch.testing.assert_close(found.logprobs, whole.gather(-1, ids))
    torch.testing.assert_close(found.entropy, entropy)
    for ours, plain in (
        (found.logprobs.square().sum(), whole.gather(-1, ids).square().sum()),
        (found.entropy.exp().sum(), entropy.exp().sum()),
        (
            found.logprobs.sin().sum() - (found.entropy**3).sum(),
            whole.gather(-1, ids).sin().sum() - (entropy**3).sum(),
        ),
    ):
        expected = torch.autograd.grad(plain, (hidden, weight), retain_graph=True)
        torch.testing.assert_close(torch.autograd.grad(ours, (hidden, weight), retain_graph=True), expected)


def test_an_id_asked_for_twice_gets_both_gradients() -> None:
    hidden, weight, _ = material()
    ids = torch.full((7, 2), 4)
    twice = token_statistics(hidden, lambda h: h @ weight.T, ids, 1.0, CHUNK_BYTES, 11).logprobs.sum()
    once = 2 * (hidden @ weight.T).log_softmax(-1)[:, 4].sum()
    torch.testing.assert_close(torch.autograd.grad(twice, hidden)[0], torch.autograd.grad(once, hidden)[0])


def test_no_more_logits_exist_at_a_time_than_the_chunk_allows() -> None:
    hidden, weight, ids = material(dtype=torch.float32)
    seen = []

    def head(states: Tensor) -> Tensor:
        seen.append(len(states))
        return states @ weight.T

    token_statistics(hidden, head, ids, 1.0, 2 * 4 * 11, 11).logprobs.sum().backward()
    assert max(seen) == 2
    assert sum(seen) == 2 * len(hidden), "each chunk once forward and once again backward"


@pytest.mark.parametrize("temperature", [0.6, 1.0])
def test_bfloat16_logits_are_scored_by_the_kernels_as_by_torch(
    temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    if native.load() is None:
        pytest.skip(f"no native kernels here: {native.unavailable_reason()}")
    draw = torch.Generator().manual_seed(0)
    logits = (torch.randn(9, 300, generator=draw) * 5).to(torch.bfloat16).requires_grad_()
    ids = torch.randint(300, (9, 2), generator=draw)

    def found() -> tuple[Tensor, Tensor, Tensor]:
        got = token_statistics(logits, lambda rows: rows * 1, ids, temperature, CHUNK_BYTES, 300)
        (gradient,) = torch.autograd.grad(got.logprobs.sin().sum() + (got.entropy**2).sum(), logits)
        return got.logprobs.detach(), got.entropy.detach(), gradient

    ours = found()
    monkeypatch.setattr(native, "load", lambda: None)
    plain = found()
    torch.testing.assert_close(ours[:2], plain[:2], atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(ours[2], plain[2], atol=1e-5, rtol=2**-7)


def test_large_logits_of_low_precision_stay_finite_and_exact() -> None:
    logits = torch.tensor([[3e4, 3e4, -3e4]], dtype=torch.bfloat16)
    found = token_statistics(logits, lambda rows: rows, torch.tensor([[0, 2]]), 0.01, CHUNK_BYTES, 3)
    assert found.logprobs.dtype == torch.float32
    assert found.logprobs[0, 0].item() == pytest.approx(-0.6931472)
    assert found.logprobs.isfinite().all() and found.entropy.item() == pytest.approx(0.6931472)


def test_nothing_to_score_gives_nothing() -> None:
    found = token_statistics(torch.zeros(0, 5), lambda h: h, torch.zeros(0, 1, dtype=torch.int64), 1.0, CHUNK_BYTES, 5)
    assert found.logprobs.shape == (0, 1) and found.entropy.shape == (0,)
