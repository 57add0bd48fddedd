"""Log-probabilities and entropy of given tokens, and the gradient of both, in one pass each over the logits."""

import ctypes

import torch
from torch import Tensor

_POINTER, _LONG, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_float
_SUFFIXES = {torch.float32: "f32", torch.bfloat16: "bf16"}


class TokenScores:
    """The functions of a compiled library. Every row is computed alone and in one fixed order."""

    def __init__(self, functions: ctypes.CDLL) -> None:
        """Raises AttributeError where `functions` is not what the build makes."""
        rows = [_POINTER, _LONG, _LONG, _INT, _FLOAT, _POINTER, _INT]
        self._score, self._gradient = {}, {}
        for dtype, suffix in _SUFFIXES.items():
            self._score[dtype] = getattr(functions, f"score_{suffix}")
            self._gradient[dtype] = getattr(functions, f"score_gradient_{suffix}")
            self._score[dtype].restype, self._score[dtype].argtypes = None, [*rows, *[_POINTER] * 3]
            self._gradient[dtype].restype, self._gradient[dtype].argtypes = None, [*rows, *[_POINTER] * 5]

    def score(self, logits: Tensor, ids: Tensor, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
        """Score `ids` (N, K) int64 under softmax(`logits` (N, V) / `temperature`), on the CPU.

        Returns log-probabilities (N, K), entropies (N,) in nats, and the logarithms of the softmax's denominators (N,),
        which `gradient` needs; all float32. Raises ValueError for other types and shapes, and for ids outside of V.
        """
        self._check(logits, ids)
        rows, per_row = ids.shape
        logprobs, entropy, normaliser = torch.empty(rows, per_row), torch.empty(rows), torch.empty(rows)
        self._score[logits.dtype](
            *self._rows(logits, ids, temperature), logprobs.data_ptr(), entropy.data_ptr(), normaliser.data_ptr()
        )
        return logprobs, entropy, normaliser

    def gradient(
        self,
        logits: Tensor,
        ids: Tensor,
        temperature: float,
        entropy: Tensor,
        normaliser: Tensor,
        for_logprobs: Tensor | None,
        for_entropy: Tensor | None,
    ) -> Tensor:
        """(N, V) in the type of `logits`: the gradient, where that of `score`'s log-probabilities is `for_logprobs`
        (N, K) and that of its entropies `for_entropy` (N,), float32, either None for 0. Raises ValueError as `score`.
        """
        self._check(logits, ids)
        given = [each if each is None else each.float().contiguous() for each in (for_logprobs, for_entropy)]
        out = torch.empty(logits.shape, dtype=logits.dtype)
        self._gradient[logits.dtype](
            *self._rows(logits, ids, temperature),
            entropy.data_ptr(),
            normaliser.data_ptr(),
            *(None if each is None else each.data_ptr() for each in given),
            out.data_ptr(),
        )
        return out

    def _check(self, logits: Tensor, ids: Tensor) -> None:
        if not (
            logits.dtype in self._score
            and logits.is_cpu
            and logits.dim() == ids.dim() == 2
            and logits.stride(1) == 1
            and len(ids) == len(logits)
            and ids.dtype is torch.int64
            and ids.is_contiguous()
        ):
            raise ValueError(
                f"no scores of {tuple(ids.shape)} {ids.dtype} in logits {tuple(logits.shape)} {logits.dtype} on "
                f"{logits.device.type}"
            )
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < logits.shape[1]:
            raise ValueError(f"a token id lies outside of the {logits.shape[1]} logits")

    @staticmethod
    def _rows(logits: Tensor, ids: Tensor, temperature: float) -> tuple[int | float, ...]:
        rows, size = logits.shape
        return logits.data_ptr(), logits.stride(0), rows, size, temperature, ids.data_ptr(), ids.shape[1]
