"""Scores of tokens and their gradient against torch's own in double precision."""

import pytest
import torch
from torch import Tensor

from actors.engine.native.kernels import Kernels
from tests.actors.engine.native.test_attention import DTYPES, normal

TEMPERATURES = [1.0, 0.6, 2.5]


def by_torch(logits: Tensor, ids: Tensor, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """The logits with gradient, log-probabilities and entropy, in double precision."""
    raw = logits.double().requires_grad_()
    whole = (raw / temperature).log_softmax(-1)
    return raw, whole.gather(-1, ids), -(whole.exp() * whole).sum(-1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize(("rows", "size", "per_row"), [(1, 1, 1), (3, 5, 2), (4, 16, 1), (2, 1041, 3), (5, 49152, 20)])
def test_scores_and_gradients_are_those_of_torch(
    kernels: Kernels, rows: int, size: int, per_row: int, temperature: float, dtype: torch.dtype
) -> None:
    logits = normal(0, rows, size, dtype=dtype) * 6
    ids = torch.randint(size, (rows, per_row), generator=torch.Generator().manual_seed(1))
    raw, logprobs, entropy = by_torch(logits, ids, temperature)
    got = kernels.scores.score(logits, ids, temperature)
    torch.testing.assert_close(got[0].double(), logprobs.detach(), atol=2e-5, rtol=1e-6)
    torch.testing.assert_close(got[1].double(), entropy.detach(), atol=2e-5, rtol=1e-5)

    for_logprobs, for_entropy = normal(2, rows, per_row), normal(3, rows)
    for weights in ((for_logprobs, None), (None, for_entropy), (for_logprobs, for_entropy)):
        pairs = zip((logprobs, entropy), weights, strict=True)
        total = sum((part * weight).sum() for part, weight in pairs if weight is not None)
        (expected,) = torch.autograd.grad(total, raw, retain_graph=True)
        gradient = kernels.scores.gradient(logits, ids, temperature, got[1], got[2], *weights)
        assert gradient.dtype is dtype
        tolerance = 1e-5 if dtype is torch.float32 else 2**-8
        torch.testing.assert_close(gradient.double(), expected, atol=1e-5, rtol=tolerance)


def test_an_id_that_stands_twice_gets_both_gradients(kernels: Kernels) -> None:
    logits, ids, weights = normal(0, 1, 40), torch.tensor([[7, 3, 7]]), torch.tensor([[1.0, 2.0, 4.0]])
    raw, logprobs, _ = by_torch(logits, ids, 1.0)
    (expected,) = torch.autograd.grad((logprobs * weights).sum(), raw)
    _, entropy, normaliser = kernels.scores.score(logits, ids, 1.0)
    got = kernels.scores.gradient(logits, ids, 1.0, entropy, normaliser, weights, None)
    torch.testing.assert_close(got.double(), expected, atol=1e-6, rtol=1e-6)


def test_logits_far_apart_and_forbidden_tokens_give_finite_numbers(kernels: Kernels) -> None:
    logits = torch.tensor([[0.0, 300.0, -300.0, -torch.inf], [-1e4, -1e4 - 1, -torch.inf, -torch.inf]])
    ids = torch.tensor([[1], [0]])
    logprobs, entropy, normaliser = kernels.scores.score(logits, ids, 1.0)
    torch.testing.assert_close(logprobs[:, 0].exp(), torch.tensor([1.0, 1 / (1 + torch.e**-1)]))
    gradient = kernels.scores.gradient(logits, ids, 1.0, entropy, normaliser, torch.ones(2, 1), torch.ones(2))
    assert gradient.isfinite().all() and entropy.isfinite().all()


def test_a_row_with_nan_is_nan_alone(kernels: Kernels) -> None:
    logits, ids = normal(0, 3, 50), torch.zeros(3, 1, dtype=torch.int64)
    expected = kernels.scores.score(logits, ids, 1.0)[0]
    logits[1, 20] = torch.nan
    got = kernels.scores.score(logits, ids, 1.0)[0]
    assert got[1].isnan().all() and got[[0, 2]].equal(expected[[0, 2]])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda logits, ids: (logits.double(), ids),
        lambda logits, ids: (logits.t(), ids),
        lambda logits, ids: (logits, ids[:-1]),
        lambda logits, ids: (logits, ids.int()),
        lambda logits, ids: (logits, ids + 10),
        lambda logits, ids: (logits, ids - 1),
    ],
)
def test_what_cannot_be_scored_is_refused(kernels: Kernels, wrong) -> None:
    with pytest.raises(ValueError, match=r"no scores|outside"):
        kernels.scores.score(*wrong(normal(0, 4, 10), torch.zeros(4, 1, dtype=torch.int64)), 1.0)
