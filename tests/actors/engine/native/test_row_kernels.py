"""Norm, activation, rotary embedding and storing against plain torch."""

import pytest
import torch
from torch import Tensor

from actors.engine.native.kernels import Kernels
from tests.actors.engine.native.test_attention import DTYPES, normal

TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 1e-2}


def assert_close(got: Tensor, expected: Tensor) -> None:
    tolerance = TOLERANCE[got.dtype]
    torch.testing.assert_close(got.double(), expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("tokens", "size"), [(1, 16), (3, 40), (5, 7), (40, 576)])
def test_add_rms_norm_is_that_of_llama(kernels: Kernels, tokens: int, size: int, dtype: torch.dtype) -> None:
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    norm = LlamaRMSNorm(size, eps=1e-5).double().requires_grad_(False)
    weight = normal(0, size, dtype=dtype)
    norm.weight.data = weight.double()
    x, residual = normal(1, tokens, size, dtype=dtype), normal(2, tokens, size, dtype=dtype)
    total = x + residual
    kept, out = residual.clone(), torch.empty_like(x)
    kernels.add_rms_norm(x, kept, weight, out, 1e-5)
    assert kept.equal(total)
    assert_close(out, norm(total.double()))

    kernels.add_rms_norm(None, residual, weight, out, 1e-5)
    assert residual.equal(normal(2, tokens, size, dtype=dtype))
    assert_close(out, norm(residual.double()))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("tokens", "size"), [(1, 16), (3, 40), (5, 7), (40, 576)])
def test_silu_mul_is_the_gated_activation(kernels: Kernels, tokens: int, size: int, dtype: torch.dtype) -> None:
    gate_up = normal(0, tokens, 2 * size, dtype=dtype) * 5
    gate_up[0, 0], gate_up[-1, 1], gate_up[-1, 2] = 200, -200, 0
    out = torch.empty(tokens, size, dtype=dtype)
    kernels.silu_mul(gate_up, out)
    gate, up = gate_up.double().chunk(2, -1)
    assert_close(out, torch.nn.functional.silu(gate) * up)


def test_silu_mul_is_accurate_to_the_last_digits(kernels: Kernels) -> None:
    gate = torch.linspace(-80, 80, 100_000)
    out = torch.empty_like(gate)[None]
    kernels.silu_mul(torch.cat((gate, torch.ones_like(gate)))[None], out)
    torch.testing.assert_close(out[0].double(), torch.nn.functional.silu(gate.double()), atol=0, rtol=5e-7)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("heads", "kv_heads", "size"), [(4, 4, 8), (3, 1, 24), (9, 3, 64), (16, 1, 128)])
@pytest.mark.parametrize("with_norms", [False, True])
def test_rope_store_is_norm_and_rotation_of_transformers(
    kernels: Kernels, heads: int, kv_heads: int, size: int, with_norms: bool, dtype: torch.dtype
) -> None:
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm, apply_rotary_pos_emb

    tokens, capacity = 21, 64
    qkv = normal(0, tokens, (heads + 2 * kv_heads) * size, dtype=dtype)
    angles = normal(1, tokens, size // 2).repeat(1, 2) * 10
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    weights = [normal(2, size, dtype=dtype), normal(3, size, dtype=dtype)] if with_norms else [None, None]
    slots = torch.randperm(capacity, generator=torch.Generator().manual_seed(4))[:tokens].int()
    slots[[2, 20]] = -1
    query = torch.empty(tokens, heads, size, dtype=dtype)
    keys, values = (torch.full((kv_heads, capacity, size), torch.nan, dtype=dtype) for _ in range(2))
    kernels.rope_store(qkv, query, keys, values, cos, sin, slots, *weights, eps=1e-5)

    def normed(x: Tensor, weight: Tensor | None) -> Tensor:
        if weight is None:
            return x
        norm = Qwen3RMSNorm(size, eps=1e-5).double().requires_grad_(False)
        norm.weight.data = weight.double()
        return norm(x)

    q, k, v = qkv.double().view(tokens, -1, size).split([heads, kv_heads, kv_heads], 1)
    q, k = normed(q, weights[0]), normed(k, weights[1])
    q, k = apply_rotary_pos_emb(q, k, cos.double(), sin.double(), unsqueeze_dim=1)
    assert_close(query, q)
    stored = slots >= 0
    other = [torch.full_like(keys, torch.nan), torch.full_like(values, torch.nan)]
    kernels.store_kv(k.to(dtype)[stored], v.to(dtype)[stored].contiguous(), *other, slots[stored])
    assert keys.isnan().equal(other[0].isnan())
    assert_close(keys.nan_to_num(0), other[0].double().nan_to_num(0))
    torch.testing.assert_close(values, other[1], atol=0, rtol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_store_kv_writes_the_given_slots_and_nothing_else(kernels: Kernels, dtype: torch.dtype) -> None:
    keys = torch.full((2, 48, 6), torch.nan, dtype=dtype)
    values = torch.full((2, 48, 5), torch.nan, dtype=dtype)
    # Strided, as transformers hands them over: (1, Hkv, T, D).
    k = normal(0, 1, 2, 4, 6, dtype=dtype)[0].transpose(0, 1)
    v = normal(1, 4, 2, 9, dtype=dtype)[..., 2:7]
    kernels.store_kv(k, v, keys, values, torch.tensor([40, -1, 3, 16], dtype=torch.int32))
    for token, slot in ((0, 40), (2, 3), (3, 16)):
        assert values[:, slot].equal(v[token])
        block = keys[:, slot // 16 * 16 : slot // 16 * 16 + 16]
        if dtype == torch.float32:
            assert block.reshape(2, 6, 16)[:, :, slot % 16].equal(k[token])
        else:
            assert block.reshape(2, 3, 16, 2)[:, :, slot % 16].reshape(2, 6).equal(k[token])
    assert values.isfinite().sum() == 3 * 2 * 5
    assert keys.isfinite().sum() == 3 * 2 * 6


def test_rows_do_not_depend_on_their_neighbours_or_on_threads(kernels: Kernels) -> None:
    x, weight = normal(0, 600, 64, dtype=torch.bfloat16), normal(1, 64, dtype=torch.bfloat16)

    def both(rows: Tensor) -> tuple[Tensor, Tensor]:
        normed, gated = torch.empty_like(rows), torch.empty_like(rows[:, :32])
        kernels.add_rms_norm(None, rows, weight, normed, 1e-5)
        kernels.silu_mul(rows, gated)
        return normed, gated

    whole = both(x)
    torch.set_num_threads(2)
    for got in (both(x), [torch.cat(parts) for parts in zip(*(both(part) for part in x.split(7)), strict=True)]):
        assert got[0].equal(whole[0])
        assert got[1].equal(whole[1])


@pytest.mark.parametrize("slot", [48, -2])
def test_a_slot_outside_the_pool_is_refused_and_nothing_is_written(kernels: Kernels, slot: int) -> None:
    keys, values = (torch.full((1, 48, 8), torch.nan) for _ in range(2))
    slots = torch.tensor([0, slot], dtype=torch.int32)
    with pytest.raises(ValueError, match=f"slot {slot} of row 1 lies outside a pool of 48 tokens"):
        kernels.store_kv(normal(0, 2, 1, 8), normal(1, 2, 1, 8), keys, values, slots)
    with pytest.raises(ValueError, match=f"slot {slot} of row 1"):
        cos = torch.ones(2, 8)
        kernels.rope_store(normal(0, 2, 24), torch.empty(2, 1, 8), keys, values, cos, cos, slots)
    assert keys.isnan().all()
    assert values.isnan().all()


def test_wrong_shapes_and_types_are_refused(kernels: Kernels) -> None:
    keys, values, slots = torch.zeros(1, 16, 8), torch.zeros(1, 16, 8), torch.zeros(2, dtype=torch.int32)
    k = torch.zeros(2, 1, 8)
    for wrong in ((k[:1], k), (k, k.bfloat16()), (k[..., :7], k), (k.half(), k.half())):
        with pytest.raises(ValueError, match="store_kv cannot take"):
            kernels.store_kv(*wrong, keys, values, slots)
    cos, query = torch.zeros(2, 8), torch.zeros(2, 1, 8)
    for qkv, sin in ((torch.zeros(2, 23), cos), (torch.zeros(2, 24), cos[:1])):
        with pytest.raises(ValueError, match="rope_store cannot take"):
            kernels.rope_store(qkv, query, keys, values, cos, sin, slots)
    x = torch.zeros(2, 8)
    with pytest.raises(ValueError, match="add_rms_norm cannot take"):
        kernels.add_rms_norm(x[:1], x, x[0], x, 0.0)
    with pytest.raises(ValueError, match="norm over 8 numbers"):
        kernels.add_rms_norm(None, x, x[0, :4], x, 0.0)
    with pytest.raises(ValueError, match="silu_mul cannot take"):
        kernels.silu_mul(x, x)


def test_supports_names_what_the_kernels_take(kernels: Kernels) -> None:
    assert kernels.supports(torch.bfloat16, 8)
    assert kernels.supports(torch.float32, 1024)
    assert not kernels.supports(torch.float16, 64)
    assert not kernels.supports(torch.float32, 7)
    assert not kernels.supports(torch.float32, 2048)
