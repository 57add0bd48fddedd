"""Log-probability and entropy of given tokens, in chunks: the logits of all tokens never exist at once."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from actors.engine import native
from actors.engine.native.scoring import TokenScores

CHUNK_BYTES = 256 << 20
"""Logits that exist at a time: float32, or bfloat16 where a kernel scores them as they are. Their gradient comes on top,
and of float32 one copy."""


class TokenStatistics(NamedTuple):
    logprobs: Tensor
    """(N, K) float32."""
    entropy: Tensor
    """(N,) float32, in nats, of the whole distribution."""


def token_statistics(
    hidden: Tensor,
    head: Callable[[Tensor], Tensor],
    targets: Tensor,
    temperature: float,
    chunk_bytes: int,
    vocabulary: int,
) -> TokenStatistics:
    """Score `targets` (N, K) int64 under softmax(head(hidden) / temperature), hidden (N, H).

    `head` maps (n, H) to logits (n, V) of any float type, V the `vocabulary`; the softmax is computed in float32 at least. At most
    `chunk_bytes` of logits are held: where there are more, the backward pass computes each chunk's again.
    """
    if not len(hidden):
        empty = hidden.new_zeros(targets.shape, dtype=torch.float32)
        return TokenStatistics(empty, hidden.new_zeros(0, dtype=torch.float32))
    in_bfloat16 = hidden.dtype is torch.bfloat16 or torch.is_autocast_enabled(hidden.device.type)
    kernels = native.load() if hidden.is_cpu and in_bfloat16 else None
    size = max(1, chunk_bytes // ((2 if kernels is not None else 4) * vocabulary))

    def score(states: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        logits = head(states)
        if kernels is not None and logits.dtype is torch.bfloat16:
            return _NativeScores.apply(logits, ids, temperature, kernels.scores)
        return _Scores.apply(logits, ids, temperature)

    if len(hidden) <= size:
        return TokenStatistics(*score(hidden, targets))
    parts = [
        checkpoint(score, states, ids, use_reentrant=False, preserve_rng_state=False)
        for states, ids in zip(hidden.split(size), targets.split(size), strict=True)
    ]
    logprobs, entropy = zip(*parts, strict=True)
    return TokenStatistics(torch.cat(logprobs), torch.cat(entropy))


class _Scores(torch.autograd.Function):
    """(logits (N, V), ids (N, K), temperature) -> log-probabilities (N, K), entropy (N,).

    Autograd would keep four arrays of (N, V); this keeps the logits and works in two. Exponentials are what it costs, so
    each pass takes them once.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, ids: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        scaled = _scaled(logits, temperature)
        exponentials = scaled.exp()
        total = exponentials.sum(dim=-1, keepdim=True)
        log_total = total.log()
        logprobs = scaled.gather(-1, ids) - log_total
        entropy = log_total.squeeze(-1) - torch.linalg.vecdot(exponentials, scaled) / total.squeeze(-1)
        ctx.save_for_backward(logits, ids, entropy)
        ctx.temperature = temperature
        ctx.set_materialize_grads(False)
        return logprobs, entropy

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None, None]:
        # With p the probabilities: d log p_k / d z_j = [j = k] - p_j and d H / d z_j = -p_j (log p_j + H).
        for_logprobs, for_entropy = gradients
        logits, ids, entropy = ctx.saved_tensors
        scaled = _scaled(logits, ctx.temperature)
        gradient = torch.zeros_like(entropy).unsqueeze(-1)
        if for_logprobs is not None:
            gradient = gradient - for_logprobs.sum(dim=-1, keepdim=True)
        if for_entropy is None:
            probabilities = scaled.exp_()
            total = probabilities.sum(dim=-1, keepdim=True)
            probabilities.mul_(gradient / total)
        else:
            probabilities = scaled.exp()
            total = probabilities.sum(dim=-1, keepdim=True)
            logprobs = scaled.sub_(total.log())
            logprobs.add_(entropy.unsqueeze(-1)).mul_(-for_entropy.unsqueeze(-1)).add_(gradient)
            probabilities.mul_(logprobs).div_(total)
        if for_logprobs is not None:
            probabilities.scatter_add_(-1, ids, for_logprobs)
        return probabilities.div_(ctx.temperature).to(logits.dtype), None, None


class _NativeScores(torch.autograd.Function):
    """The same for bfloat16 logits on a CPU, which are read where they are."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, ids: Tensor, temperature: float, scores: TokenScores
    ) -> tuple[Tensor, Tensor]:
        logprobs, entropy, normaliser = scores.score(logits, ids.contiguous(), temperature)
        ctx.save_for_backward(logits, ids, entropy, normaliser)
        ctx.temperature, ctx.scores = temperature, scores
        ctx.set_materialize_grads(False)
        return logprobs, entropy

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor, None, None, None]:
        logits, ids, entropy, normaliser = ctx.saved_tensors
        gradient = ctx.scores.gradient(logits, ids.contiguous(), ctx.temperature, entropy, normaliser, *gradients)
        return gradient, None, None, None


def _scaled(logits: Tensor, temperature: float) -> Tensor:
    """(logits - largest) / temperature, (N, V), float32 at least, in an array of its own."""
    raw = logits.to(torch.promote_types(logits.dtype, torch.float32))
    largest = raw.amax(dim=-1, keepdim=True)
    scaled = raw - largest if raw is logits else raw.sub_(largest)
    return scaled if temperature == 1 else scaled.div_(temperature)
