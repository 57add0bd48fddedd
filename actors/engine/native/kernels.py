"""The native kernels as methods on torch tensors.

Methods check types, shapes and layouts and raise ValueError; what they check is cheap, because a decode step calls
them for every layer. Tensors are on the CPU and of one type, float32 or bfloat16, unless said otherwise.
"""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import torch
from torch import Tensor

from actors.engine.native.matmul import TileProducts
from actors.engine.native.scoring import TokenScores

BLOCK = 16
"""Tokens in a block of the pool. Runs begin at a multiple of it, and a shared prefix is as long as one."""

LARGEST_HEAD = 1024
"""`rope_store` takes no larger head size."""

_SUFFIXES = {torch.float32: "f32", torch.bfloat16: "bf16"}

_POINTER, _INT, _LONG = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
_FLOAT, _DOUBLE = ctypes.c_float, ctypes.c_double

_SIGNATURES: dict[str, tuple[type | None, list[type]]] = {
    "attend": (
        _INT,
        [_POINTER, _LONG, _LONG, *[_POINTER] * 4, _INT, _LONG, *[_INT] * 4, _LONG, _FLOAT, _FLOAT, _INT, _POINTER],
    ),
    "store_kv": (_INT, [*[_POINTER, _LONG, _LONG] * 2, *[_POINTER] * 3, *[_INT] * 4, _LONG]),
    "rope_store": (_INT, [*[_POINTER] * 8, _FLOAT, _POINTER, *[_INT] * 4, _LONG]),
    "add_rms_norm": (None, [*[_POINTER] * 4, _INT, _INT, _FLOAT]),
    "silu_mul": (None, [_POINTER, _POINTER, _INT, _INT]),
    "sample": (None, [_POINTER, _LONG, _INT, _INT, _INT, _FLOAT, _INT, _DOUBLE, _FLOAT, *[_POINTER] * 4]),
}


class Kernels:
    """The functions of one compiled library.

    Every row is computed alone and in a fixed order: its result is the same to the bit whatever rows stand beside it,
    however a prompt is cut into pieces, on any number of threads, and whether the first blocks of its keys and values
    lie in a shared prefix or in its own run. Threads are those of torch.

    The pool of a layer is a pair of contiguous tensors, keys (Hkv, P, Dk) and values (Hkv, P, Dv), with P a multiple
    of 16 and Dk even. Inside a block of 16 tokens, keys lie transposed: only these kernels read them, but whole blocks
    may be copied from place to place.
    """

    def __init__(self, library: Path) -> None:
        """Load `library`. Raises OSError or AttributeError where it is not what the build makes."""
        functions = ctypes.CDLL(str(library))
        self.thread_count: Callable[[], int] = functions.thread_count
        """How many threads a call from this thread would use."""
        self.tiles = TileProducts(functions)
        self.scores = TokenScores(functions)

        def by_type(name: str) -> dict[torch.dtype, Callable[..., int]]:
            result, arguments = _SIGNATURES[name]
            found = {}
            for dtype, suffix in _SUFFIXES.items():
                function = getattr(functions, f"{name}_{suffix}")
                function.restype, function.argtypes = result, arguments
                found[dtype] = function
            return found

        self._attend = by_type("attend")
        self._store_kv = by_type("store_kv")
        self._rope_store = by_type("rope_store")
        self._add_rms_norm = by_type("add_rms_norm")
        self._silu_mul = by_type("silu_mul")
        self._sample = by_type("sample")

    @staticmethod
    def supports(dtype: torch.dtype, key_size: int) -> bool:
        """Return whether `attend`, `store_kv` and `rope_store` take keys of this type and head size."""
        return dtype in _SUFFIXES and 0 < key_size <= LARGEST_HEAD and key_size % 2 == 0

    def attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        out: Tensor,
        sequences: Tensor,
        *,
        scale: float,
        softcap: float = 0.0,
        window: int = 0,
        sinks: Tensor | None = None,
    ) -> None:
        """Write causal attention of every sequence's rows over its tokens in the pool into `out`.

        `query` (T, Hq, Dk) has any strides but a contiguous last dimension; `out` (T, Hq, Dv) is contiguous.
        `sequences` (N, 6) int32 holds a sequence a row:

            first_row, rows     its rows of `query`: the last `rows` of its tokens
            length              its tokens so far, those included; all are in the pool
            prefix_start, prefix_length     pool token where its first tokens lie, and how many: whole blocks
            own_start           pool token where the others lie

        Scores are multiplied by `scale`; `softcap` c > 0 makes of a score s c tanh(s / c) (Gemma 2); with `window` w > 0
        a token sees itself and the w - 1 tokens before; `sinks` (Hq,) float32 are logits that take part in the softmax
        but carry no value (gpt-oss). Rows of `out` that belong to no sequence stay as they are.
        Raises ValueError before anything is written.
        """
        tokens, heads, key_size = query.shape
        kv_heads, capacity, _ = keys.shape
        value_size = values.shape[2]
        token_stride, head_stride, step = query.stride()
        dtype = query.dtype
        function = self._attend.get(dtype)
        if function is None or not (
            keys.dtype is dtype
            and values.dtype is dtype
            and out.dtype is dtype
            and sequences.dtype is torch.int32
            and keys.shape == (kv_heads, capacity, key_size)
            and values.shape == (kv_heads, capacity, value_size)
            and out.shape == (tokens, heads, value_size)
            and heads % kv_heads == key_size % 2 == capacity % BLOCK == 0
            and (step == 1 or key_size == 1)
            and keys.is_contiguous()
            and values.is_contiguous()
            and out.is_contiguous()
            and sequences.is_contiguous()
            and sequences.shape[1] == 6
            and query.is_cpu
            and keys.is_cpu
            and values.is_cpu
            and out.is_cpu
            and sequences.is_cpu
        ):
            _refuse("attend", query=query, keys=keys, values=values, out=out, sequences=sequences)
        bad = function(
            query.data_ptr(),
            token_stride,
            head_stride,
            keys.data_ptr(),
            values.data_ptr(),
            out.data_ptr(),
            sequences.data_ptr(),
            sequences.shape[0],
            tokens,
            heads,
            kv_heads,
            key_size,
            value_size,
            capacity,
            scale,
            softcap,
            window,
            None if sinks is None else _weight(sinks, torch.float32, heads),
        )
        if bad >= 0:
            raise ValueError(f"attend: sequence {bad} reaches outside its tensors: {sequences[bad].tolist()}")

    def store_kv(self, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, slots: Tensor) -> None:
        """Write `k` (T, Hkv, Dk) and `v` (T, Hkv, Dv) into the pool.

        Both have any strides but a contiguous last dimension. `slots` (T,) int32 are the pool tokens to write, all
        different; -1 writes nothing. Raises ValueError before anything is written.
        """
        tokens, kv_heads, key_size = k.shape
        value_size = v.shape[2]
        capacity = keys.shape[1]
        k_token, k_head, k_step = k.stride()
        v_token, v_head, v_step = v.stride()
        dtype = k.dtype
        function = self._store_kv.get(dtype)
        if function is None or not (
            v.dtype is dtype
            and keys.dtype is dtype
            and values.dtype is dtype
            and slots.dtype is torch.int32
            and v.shape == (tokens, kv_heads, value_size)
            and keys.shape == (kv_heads, capacity, key_size)
            and values.shape == (kv_heads, capacity, value_size)
            and slots.shape == (tokens,)
            and key_size % 2 == capacity % BLOCK == 0
            and k_step == 1
            and (v_step == 1 or value_size == 1)
            and keys.is_contiguous()
            and values.is_contiguous()
            and slots.is_contiguous()
            and k.is_cpu
            and v.is_cpu
            and keys.is_cpu
            and values.is_cpu
            and slots.is_cpu
        ):
            _refuse("store_kv", k=k, v=v, keys=keys, values=values, slots=slots)
        bad = function(
            k.data_ptr(),
            k_token,
            k_head,
            v.data_ptr(),
            v_token,
            v_head,
            keys.data_ptr(),
            values.data_ptr(),
            slots.data_ptr(),
            tokens,
            kv_heads,
            key_size,
            value_size,
            capacity,
        )
        if bad >= 0:
            _refuse_slot("store_kv", slots, bad, capacity)

    def rope_store(
        self,
        qkv: Tensor,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        cos: Tensor,
        sin: Tensor,
        slots: Tensor,
        q_norm: Tensor | None = None,
        k_norm: Tensor | None = None,
        eps: float = 0.0,
    ) -> None:
        """Rotate queries and keys of `qkv` (T, (Hq + 2 Hkv) D); write queries to `query`, keys and values to the pool.

        `query` (T, Hq, D). `cos` and `sin` (T, D) are as transformers' rotary embeddings return them: the second half
        of a head repeats the first, and the first half of its components turns against the second (`rotate_half`).
        `q_norm` and `k_norm` (D,) are weights of an RMSNorm with `eps` over each head before the rotation (Qwen 3).
        `slots` as in `store_kv`. All contiguous. Raises ValueError before anything is written.
        """
        tokens, heads, size = query.shape
        kv_heads, capacity, _ = keys.shape
        dtype = qkv.dtype
        function = self._rope_store.get(dtype)
        if function is None or not (
            query.dtype is dtype
            and keys.dtype is dtype
            and values.dtype is dtype
            and cos.dtype is dtype
            and sin.dtype is dtype
            and slots.dtype is torch.int32
            and qkv.shape == (tokens, (heads + 2 * kv_heads) * size)
            and keys.shape == values.shape == (kv_heads, capacity, size)
            and cos.shape == sin.shape == (tokens, size)
            and slots.shape == (tokens,)
            and size % 2 == capacity % BLOCK == 0
            and size <= LARGEST_HEAD
            and qkv.is_contiguous()
            and query.is_contiguous()
            and keys.is_contiguous()
            and values.is_contiguous()
            and cos.is_contiguous()
            and sin.is_contiguous()
            and slots.is_contiguous()
            and qkv.is_cpu
            and query.is_cpu
            and keys.is_cpu
            and values.is_cpu
            and cos.is_cpu
            and sin.is_cpu
            and slots.is_cpu
        ):
            _refuse("rope_store", qkv=qkv, query=query, keys=keys, values=values, cos=cos, sin=sin, slots=slots)
        bad = function(
            qkv.data_ptr(),
            query.data_ptr(),
            keys.data_ptr(),
            values.data_ptr(),
            cos.data_ptr(),
            sin.data_ptr(),
            None if q_norm is None else _weight(q_norm, dtype, size),
            None if k_norm is None else _weight(k_norm, dtype, size),
            eps,
            slots.data_ptr(),
            tokens,
            heads,
            kv_heads,
            size,
            capacity,
        )
        if bad >= 0:
            _refuse_slot("rope_store", slots, bad, capacity)

    def add_rms_norm(self, x: Tensor | None, residual: Tensor, weight: Tensor, out: Tensor, eps: float) -> None:
        """Add `x` to `residual` in place, unless it is None; write RMSNorm(residual) * `weight` to `out`.

        `x`, `residual` and `out` (T, D) contiguous, `weight` (D,). `out` may be `x`. RMSNorm(y) is
        y / sqrt(mean(y^2) + `eps`), of the sum as it is stored. Raises ValueError.
        """
        tokens, size = residual.shape
        dtype = residual.dtype
        function = self._add_rms_norm.get(dtype)
        if function is None or not (
            out.dtype is dtype
            and out.shape == (tokens, size)
            and residual.is_contiguous()
            and out.is_contiguous()
            and residual.is_cpu
            and out.is_cpu
            and (x is None or (x.dtype is dtype and x.shape == (tokens, size) and x.is_contiguous() and x.is_cpu))
        ):
            _refuse("add_rms_norm", residual=residual, out=out, **({} if x is None else {"x": x}))
        function(
            None if x is None else x.data_ptr(),
            residual.data_ptr(),
            _weight(weight, dtype, size),
            out.data_ptr(),
            tokens,
            size,
            eps,
        )

    def silu_mul(self, gate_up: Tensor, out: Tensor) -> None:
        """Write silu(gate) * up to `out` (T, I); `gate_up` (T, 2 I) holds both, side by side. Raises ValueError."""
        tokens, size = out.shape
        dtype = out.dtype
        function = self._silu_mul.get(dtype)
        if function is None or not (
            gate_up.dtype is dtype
            and gate_up.shape == (tokens, 2 * size)
            and gate_up.is_contiguous()
            and out.is_contiguous()
            and gate_up.is_cpu
            and out.is_cpu
        ):
            _refuse("silu_mul", gate_up=gate_up, out=out)
        function(gate_up.data_ptr(), out.data_ptr(), tokens, size)

    def sample(
        self,
        logits: Tensor,
        *,
        temperature: float,
        top_k: int,
        top_p: float,
        min_p: float,
        uniform: Tensor | None,
        vocab_limit: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Draw one token a row of `logits` (B, V), by the rules of `actors.engine.sampling.sample`.

        The last dimension is contiguous. `uniform` (B,) float64 contiguous may be None where `temperature` is 0
        (greedy). Returns ids (B,) int64 below `vocab_limit`, and (B,) float32 log-probabilities: of the raw logits and
        at the temperature. Raises ValueError.
        """
        rows, size = logits.shape
        function = self._sample.get(logits.dtype)
        if not (function and (logits.stride(1) == 1 or size == 1) and logits.is_cpu and 0 < vocab_limit <= size):
            _refuse(f"sample below id {vocab_limit}", logits=logits)
        if uniform is None:
            if temperature > 0:
                raise ValueError("sample needs one uniform number a row at a temperature above 0")
        elif not (
            uniform.dtype is torch.float64 and uniform.shape == (rows,) and uniform.is_contiguous() and uniform.is_cpu
        ):
            _refuse("sample", logits=logits, uniform=uniform)
        ids = torch.empty(rows, dtype=torch.int64)
        logprobs, sampling_logprobs = torch.empty(rows), torch.empty(rows)
        function(
            logits.data_ptr(),
            logits.stride(0),
            rows,
            size,
            vocab_limit,
            temperature,
            top_k,
            top_p,
            min_p,
            None if uniform is None else uniform.data_ptr(),
            ids.data_ptr(),
            logprobs.data_ptr(),
            sampling_logprobs.data_ptr(),
        )
        return ids, logprobs, sampling_logprobs


def _weight(weight: Tensor, dtype: torch.dtype, size: int) -> int:
    if not (weight.dtype is dtype and weight.shape == (size,) and weight.is_contiguous() and weight.is_cpu):
        _refuse(f"a norm over {size} numbers of {dtype}", weight=weight)
    return weight.data_ptr()


def _refuse(operation: str, **tensors: Tensor) -> NoReturn:
    described = ", ".join(
        f"{name} {tuple(tensor.shape)} {tensor.dtype} on {tensor.device.type}"
        + ("" if tensor.is_contiguous() else f" with strides {tensor.stride()}")
        for name, tensor in tensors.items()
    )
    raise ValueError(f"{operation} cannot take these shapes, types or layouts; its docstring says which: {described}")


def _refuse_slot(operation: str, slots: Tensor, bad: int, capacity: int) -> NoReturn:
    raise ValueError(f"{operation}: slot {slots[bad].item()} of row {bad} lies outside a pool of {capacity} tokens")
