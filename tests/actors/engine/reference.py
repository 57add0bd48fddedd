"""Generation as plainly as it can be written: one prompt, no padding, no cache, a whole forward pass a token.

Shares with the engine only the uniform numbers, which have tests of their own.
"""

import numpy as np
import torch
from transformers import PreTrainedModel

from actors.engine.requests import Completion, GenerationRequest, SamplingParams
from actors.engine.sampling import row_key, uniforms


def reference_generate(
    model: PreTrainedModel,
    request: GenerationRequest,
    params: SamplingParams,
    eos: set[int],
    vocab_limit: int | None = None,
) -> Completion:
    ids = list(request.prompt_ids)
    kept: list[int] = []
    logprobs: list[float] = []
    tempered: list[float] = []
    reason = "length"
    for position in range(params.max_new_tokens):
        with torch.no_grad():
            logits = model(torch.tensor([ids]), use_cache=False).logits[0, -1].float().numpy().astype(np.float64)
        if params.greedy:
            token = int(np.argmax(logits[:vocab_limit]))
        else:
            key = np.array([row_key(params.seed, request.problem_id, request.sample_index)], dtype=np.uint64)
            uniform = float(uniforms(key, np.array([position], dtype=np.uint64))[0])
            token = draw(logits[:vocab_limit], params, uniform)
        kept.append(token)
        logprobs.append(log_softmax(logits)[token])
        tempered.append(log_softmax(logits / (params.temperature or 1))[token])
        ids.append(token)
        if token in eos:
            reason = "eos"
            break
    return Completion(
        request.problem_id, request.sample_index, "", tuple(kept), tuple(logprobs), tuple(tempered), reason
    )


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def kept_tokens(logits: np.ndarray, params: SamplingParams) -> np.ndarray:
    """Boolean (V,): what the filters leave of one row, in the order temperature, top-k, top-p, min-p."""
    probabilities = np.exp(log_softmax(logits / params.temperature))
    kept = np.ones(len(logits), dtype=bool)
    if params.top_k:
        kept &= probabilities >= np.sort(probabilities)[::-1][min(params.top_k, len(logits)) - 1]
    if params.top_p < 1:
        mass = 0.0
        total = probabilities[kept].sum()
        for probability in np.sort(probabilities[kept])[::-1]:
            mass += probability
            boundary = probability
            if mass >= params.top_p * total - 1e-6 * total:
                break
        kept &= probabilities >= boundary
    if params.min_p:
        kept &= probabilities >= params.min_p * probabilities.max()
    return kept


def draw(logits: np.ndarray, params: SamplingParams, uniform: float) -> int:
    probabilities = np.exp(log_softmax(logits / params.temperature)) * kept_tokens(logits, params)
    return int(np.searchsorted(np.cumsum(probabilities), uniform * probabilities.sum(), side="right"))
