"""Is a compiled library right? A few small cases of every kernel against torch, run once a build.

python -m actors.engine.native.check LIBRARY
"""

import sys
from pathlib import Path

import torch
from torch import Tensor

from actors.engine.native.kernels import BLOCK, Kernels
from actors.engine.native.matmul import TileProducts
from actors.engine.native.scoring import TokenScores

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


class WrongLibrary(Exception):
    """The library does not compute what it should; the message names the kernel."""


def check(kernels: Kernels) -> None:
    """Raise WrongLibrary unless every kernel agrees with torch and attention rows do not depend on their neighbours."""
    generator = torch.Generator().manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16):

        def normal(*shape: int, dtype: torch.dtype = dtype) -> Tensor:
            return torch.randn(*shape, generator=generator).to(dtype)

        _check_rows(kernels, normal(3, 48), normal(3, 48), normal(48))
        for heads, kv_heads, size in ((4, 4, 8), (6, 2, 64), (20, 2, 32)):
            _check_attention(
                kernels, normal(40, (heads + 2 * kv_heads) * size), normal(2, 40, size // 2), kv_heads, size
            )
    _check_sampling(kernels, torch.randn(20, 700, generator=generator))
    _check_scores(kernels.scores, torch.randn(3, 700, generator=generator))
    if kernels.tiles.available:
        _check_products(
            kernels.tiles, *(torch.randn(size, generator=generator) for size in ((70, 80), (50, 80), (50,)))
        )


def _check_rows(kernels: Kernels, x: Tensor, residual: Tensor, weight: Tensor) -> None:
    total = (x.float() + residual.float()).to(x.dtype).float()
    expected = total * (total.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weight.float()
    out = _unwritten(x)
    kernels.add_rms_norm(x, residual, weight, out, 1e-5)
    _compare("add_rms_norm", out, expected)
    _compare("add_rms_norm", residual, total)

    gate, up = x.float().chunk(2, -1)
    out = _unwritten(x[:, :24])
    kernels.silu_mul(x, out)
    _compare("silu_mul", out, torch.nn.functional.silu(gate) * up)


def _check_attention(kernels: Kernels, qkv: Tensor, angles: Tensor, kv_heads: int, size: int) -> None:
    tokens, dtype = len(qkv), qkv.dtype
    heads = qkv.shape[1] // size - 2 * kv_heads
    cos, sin = angles.cos().repeat(1, 1, 2)[0], angles.sin().repeat(1, 1, 2)[0]
    query = _unwritten(qkv.new_empty(tokens, heads, size))
    capacity = (tokens + BLOCK - 1) // BLOCK * BLOCK
    keys, values = (_unwritten(qkv.new_empty(kv_heads, capacity, size)) for _ in range(2))
    kernels.rope_store(qkv, query, keys, values, cos, sin, torch.arange(tokens, dtype=torch.int32))

    split = qkv.float().view(tokens, -1, size)
    low, high = split[:, : heads + kv_heads].chunk(2, -1)
    turned = split[:, : heads + kv_heads] * cos.float()[:, None] + torch.cat((-high, low), -1) * sin.float()[:, None]
    turned = turned.to(dtype)
    _compare("rope_store", query, turned[:, :heads].float())
    others = _unwritten(keys), _unwritten(values)
    slots = torch.arange(tokens, dtype=torch.int32)
    kernels.store_kv(turned[:, heads:], qkv.view(tokens, -1, size)[:, heads + kv_heads :], *others, slots)

    expected = torch.nn.functional.scaled_dot_product_attention(
        turned[:, :heads].float().transpose(0, 1),
        turned[:, heads:].float().transpose(0, 1),
        split[:, heads + kv_heads :].transpose(0, 1),
        is_causal=True,
        scale=0.3,
        enable_gqa=True,
    ).transpose(0, 1)
    whole = torch.tensor([[0, tokens, tokens, 0, 0, 0]], dtype=torch.int32)
    for pool in ((keys, values), others):
        out = _unwritten(query)
        kernels.attend(query, *pool, out, whole, scale=0.3)
        _compare("attend", out, expected)

    alone = _unwritten(query)
    for row in range(tokens):
        piece = torch.tensor([[row, 1, row + 1, 0, BLOCK, BLOCK]], dtype=torch.int32)
        kernels.attend(query, *others, alone, piece, scale=0.3)
    if not alone.equal(out):
        raise WrongLibrary("attend: a row's result depends on its neighbours")


def _check_sampling(kernels: Kernels, logits: Tensor) -> None:
    scaled = logits.double() / 0.7
    expected = scaled.softmax(-1)
    # The middle of the stretch that the largest token of each row has in the cumulative distribution.
    largest = logits.argmax(-1, keepdim=True)
    middle = (expected.cumsum(-1) - expected / 2).gather(-1, largest).squeeze(-1)
    for temperature, uniform in ((0.0, None), (0.7, middle)):
        ids, logprobs, sampling_logprobs = kernels.sample(
            logits, temperature=temperature, top_k=0, top_p=1.0, min_p=0.0, uniform=uniform, vocab_limit=700
        )
        if not ids.equal(largest.squeeze(-1)):
            raise WrongLibrary("sample draws other tokens")
        _compare("sample", logprobs, logits.log_softmax(-1).gather(-1, largest).squeeze(-1))
    _compare("sample", sampling_logprobs, scaled.log_softmax(-1).gather(-1, largest).squeeze(-1).float())
    # A filter that leaves two tokens: which one follows from the number.
    both = logits.topk(2, dim=-1).indices.sort(dim=-1).values
    for place, number in enumerate((0.0, 1 - 1e-9)):
        uniform = torch.full_like(middle, number)
        for top_k, top_p in ((2, 1.0), (2, 0.9999)):
            ids = kernels.sample(
                logits, temperature=0.7, top_k=top_k, top_p=top_p, min_p=0.0, uniform=uniform, vocab_limit=700
            )[0]
            if not ids.equal(both[:, place]):
                raise WrongLibrary("sample keeps other tokens")


def _check_scores(scores: TokenScores, logits: Tensor) -> None:
    ids = logits.topk(2, dim=-1).indices
    for dtype in TOLERANCE:
        rounded = logits.to(dtype)
        whole = rounded.double().div(0.7).log_softmax(-1)
        entropy = -(whole.exp() * whole).sum(-1, keepdim=True)
        one_hot = torch.zeros_like(whole).scatter_(-1, ids, 1.0)
        expected = (one_hot - whole.exp() * (2 + whole + entropy)) / 0.7
        logprobs, found, normaliser = scores.score(rounded, ids, 0.7)
        _compare("score", logprobs, whole.gather(-1, ids).float())
        _compare("score", found, entropy[:, 0].float())
        weights = torch.ones(ids.shape), torch.ones(len(ids))
        gradient = scores.gradient(rounded, ids, 0.7, entropy[:, 0].float(), normaliser, *weights)
        _compare("score_gradient", gradient, expected.float())


def _check_products(tiles: TileProducts, x: Tensor, weight: Tensor, bias: Tensor) -> None:
    x, weight, bias = x.bfloat16(), weight.bfloat16(), bias.bfloat16()
    packed = tiles.pack(weight)
    out = tiles.linear(x, packed, bias, len(weight))
    _compare("linear", out, torch.nn.functional.linear(x.float(), weight.float(), bias.float()))
    alone = torch.cat([tiles.linear(row[None], packed, bias, len(weight)) for row in x])
    if not alone.equal(out):
        raise WrongLibrary("linear: a row's result depends on its neighbours")


def _unwritten(like: Tensor) -> Tensor:
    return torch.full_like(like, torch.nan, memory_format=torch.contiguous_format)


def _compare(kernel: str, got: Tensor, expected: Tensor) -> None:
    tolerance = TOLERANCE[got.dtype]
    if not torch.allclose(got.float(), expected, atol=tolerance, rtol=tolerance):
        raise WrongLibrary(f"{kernel} disagrees with torch by {(got.float() - expected).abs().max().item():g}")


if __name__ == "__main__":
    try:
        check(Kernels(Path(sys.argv[1])))
    except (WrongLibrary, OSError, AttributeError) as error:
        sys.exit(str(error))
