"""Choosing the next token: counter-based random numbers, filters, and one draw through the inverse CDF.

A sample's random numbers depend on its identity alone (seed, problem id, sample index, position), so the same
sample comes out whatever the batch, the order, the number of workers or a restart.
"""

import hashlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from actors.engine import native
from actors.engine.requests import SamplingParams

if TYPE_CHECKING:
    from actors.engine.native.kernels import Kernels

NUCLEUS_PROBE = 1024
"""Top-p looks at this many of the most probable tokens first; the whole vocabulary is sorted only for rows whose
nucleus is larger."""

NUCLEUS_TOLERANCE = 1e-6
"""A cumulative mass this close below top_p counts as having reached it: fp32 cannot tell 0.5 from 0.49999997."""

LOWEST_TEMPERATURE = 1e-30
"""Below this, fp32 division overflows; every such temperature already is greedy decoding."""

BLOCK = 512
"""The inverse CDF finds a block of this many tokens first and the token inside it second."""

_GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


class Sampled(NamedTuple):
    """The tokens that were drawn, one a row.

    A row whose logits held NaN, or nothing but -inf, has a log-probability that is not finite; its id means nothing.
    """

    ids: Tensor
    """(B,) int64."""
    logprobs: Tensor
    """(B,) float32, log_softmax of the raw logits over all columns."""
    sampling_logprobs: Tensor
    """(B,) float32, log_softmax of the logits over the temperature, over all columns, before any filter."""


def row_key(seed: int, problem_id: str, sample_index: int) -> int:
    """64 bits that identify one sample. The lengths written in front keep different triples from reading alike."""
    problem = problem_id.encode("utf-8", "surrogatepass")
    message = b"%d %d %d " % (seed, sample_index, len(problem)) + problem
    return int.from_bytes(hashlib.blake2b(message, digest_size=8, person=b"mathlete.sample").digest(), "little")


def uniforms(keys: npt.NDArray[np.uint64], positions: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Return one number in [0, 1) a row: the top 53 bits of SplitMix64 (Steele, Lea and Flood, 2014).

    `keys` (B,) uint64 come from `row_key`; `positions` (B,) uint64 count the completion's tokens from 0.
    """
    with np.errstate(over="ignore"):
        state = keys + (positions + np.uint64(1)) * _GOLDEN_GAMMA
        state = (state ^ (state >> np.uint64(30))) * _MIX_1
        state = (state ^ (state >> np.uint64(27))) * _MIX_2
    state ^= state >> np.uint64(31)
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def sample(
    logits: Tensor, params: SamplingParams, uniform: Tensor | None = None, vocab_limit: int | None = None
) -> Sampled:
    """Draw one token a row from `logits` (B, V), any float type.

    Greedy decoding takes the largest fp32 logit, the lowest id among equals, and needs no `uniform`. Otherwise
    `uniform` (B,) float64 in [0, 1) selects, in order of token ids, from what temperature, top-k, top-p and min-p
    leave, applied in that order. Columns from `vocab_limit` on are never drawn: models pad their vocabulary.

    Filters keep or drop equally probable tokens together, so the set kept depends on probabilities alone: ties with
    the k-th token or with the nucleus' boundary token are kept, and at least one token always is.

    On a CPU the native kernels do this where there are any; the two implementations round differently, and so may
    disagree where `uniform` lies within 1e-6 of a boundary between two tokens.
    """
    limit = logits.shape[-1] if vocab_limit is None else min(vocab_limit, logits.shape[-1])
    if params.greedy:
        uniform = None
    elif uniform is None:
        raise ValueError("sampling at a temperature above 0 needs one uniform number a row")
    if logits.is_cpu and (kernels := native.load()):
        return _sample_natively(kernels, logits, params, uniform, limit)
    raw = logits.float()
    if uniform is None:
        best, ids = raw[:, :limit].max(dim=-1, keepdim=True)
        logprobs = (best - raw.logsumexp(dim=-1, keepdim=True)).squeeze(-1)
        return Sampled(ids.squeeze(-1), logprobs, logprobs)

    # The maximum leaves before the division, so that no temperature can overflow.
    scaled = (raw - raw.amax(dim=-1, keepdim=True)) / max(params.temperature, LOWEST_TEMPERATURE)
    allowed = scaled[:, :limit]
    if limit < scaled.shape[-1]:
        allowed = allowed - allowed.amax(dim=-1, keepdim=True)
    ids = inverse_cdf(_weights(allowed, params), uniform)

    chosen = ids.unsqueeze(-1)
    sampling_logprobs = (scaled.gather(-1, chosen) - scaled.logsumexp(dim=-1, keepdim=True)).squeeze(-1)
    if params.temperature == 1:
        return Sampled(ids, sampling_logprobs, sampling_logprobs)
    logprobs = (raw.gather(-1, chosen) - raw.logsumexp(dim=-1, keepdim=True)).squeeze(-1)
    return Sampled(ids, logprobs, sampling_logprobs)


def _sample_natively(
    kernels: "Kernels", logits: Tensor, params: SamplingParams, uniform: Tensor | None, limit: int
) -> Sampled:
    if logits.dtype not in (torch.float32, torch.bfloat16):
        logits = logits.float()
    if logits.stride(-1) != 1:
        logits = logits.contiguous()
    return Sampled(
        *kernels.sample(
            logits,
            temperature=0.0 if params.greedy else max(params.temperature, LOWEST_TEMPERATURE),
            top_k=params.top_k,
            top_p=params.top_p,
            min_p=params.min_p,
            uniform=None if uniform is None else uniform.to(torch.float64).contiguous(),
            vocab_limit=limit,
        )
    )


def inverse_cdf(weights: Tensor, uniform: Tensor) -> Tensor:
    """Return (B,) int64: in each row the first id whose cumulative weight exceeds `uniform` times the total.

    `weights` (B, V) float32, not negative, not normalised; `uniform` (B,) float64 in [0, 1). Two levels, blocks of
    512 ids and the ids in one block, cost one pass over the vocabulary; sums across and inside blocks are float64.
    A weight of zero is never chosen: where rounding runs past the end, the last id with weight is taken.
    """
    rows, size = weights.shape
    blocks = -(-size // BLOCK)
    if blocks * BLOCK != size:
        weights = torch.nn.functional.pad(weights, (0, blocks * BLOCK - size))
    weights = weights.view(rows, blocks, BLOCK)

    block_cdf = weights.sum(dim=-1).double().cumsum(dim=-1)
    target = uniform.unsqueeze(-1) * block_cdf[:, -1:]
    block = _first_above(block_cdf, target)
    before = block_cdf.gather(-1, (block - 1).clamp(min=0)) * (block > 0)

    inside = weights.gather(1, block.unsqueeze(-1).expand(rows, 1, BLOCK)).squeeze(1).double().cumsum(dim=-1)
    return (block * BLOCK + _first_above(inside, target - before)).squeeze(-1)


def _first_above(cdf: Tensor, target: Tensor) -> Tensor:
    """(B, 1): the first index with cdf > target. The first to reach the maximum is the last that carries weight."""
    last = cdf.argmax(dim=-1, keepdim=True)
    return torch.minimum((cdf <= target).sum(dim=-1, keepdim=True), last)


def _weights(scaled: Tensor, params: SamplingParams) -> Tensor:
    """(B, V) unnormalised probabilities, zero where filtered out. `scaled` has a row maximum of 0."""
    size = scaled.shape[-1]
    lowest = None
    ranked = None
    if 0 < params.top_k < size:
        ranked = scaled.topk(params.top_k, dim=-1).values
        lowest = ranked[:, -1:]
    weights = scaled.exp()
    if params.top_p < 1:
        kept = weights if lowest is None else weights.masked_fill(scaled < lowest, 0)
        total = kept.sum(dim=-1, dtype=torch.float64, keepdim=True)
        boundary = _nucleus_boundary(scaled, ranked, total, params.top_p)
        lowest = boundary if lowest is None else torch.maximum(lowest, boundary)
    if lowest is not None:
        weights = weights.masked_fill(scaled < lowest, 0)
    if params.min_p > 0:
        # The most probable token has weight 1 here, whatever the earlier filters removed.
        weights = weights.masked_fill(weights < params.min_p, 0)
    return weights


def _nucleus_boundary(scaled: Tensor, ranked: Tensor | None, total: Tensor, top_p: float) -> Tensor:
    """(B, 1): the value of the least probable token inside the nucleus of mass `top_p` of `total` (B, 1) float64.

    `ranked` (B, k) holds what top-k left, in falling order; beyond it come only ties with its last value.
    """
    if ranked is not None:
        return _boundary(ranked, total, top_p)[0]
    boundary, reached = _boundary(scaled.topk(min(NUCLEUS_PROBE, scaled.shape[-1]), dim=-1).values, total, top_p)
    wide = (~reached).nonzero().squeeze(-1)
    if len(wide):
        boundary[wide] = _boundary(scaled[wide].sort(dim=-1, descending=True).values, total[wide], top_p)[0]
    return boundary


def _boundary(ranked: Tensor, total: Tensor, top_p: float) -> tuple[Tensor, Tensor]:
    """The boundary value (B, 1), and (B,) whether the mass in `ranked` reaches `top_p`."""
    mass = ranked.exp().double().cumsum(dim=-1)
    short = mass < (top_p - NUCLEUS_TOLERANCE) * total
    place = short.sum(dim=-1, keepdim=True)
    reached = place.squeeze(-1) < ranked.shape[-1]
    return ranked.gather(-1, place.clamp(max=ranked.shape[-1] - 1)), reached
