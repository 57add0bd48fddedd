"""Batched generation with a left-padded, statically formed batch: the readable engine, and the oracle of the others.

Works with any causal language model of transformers that keeps its past in a key-value cache. A batch is prefilled
once, then decoded a token at a time; a finished row leaves the batch at once.
"""

import inspect
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from actors.engine.cache import GrowingCache, swap_order
from actors.engine.masks import DecodeMasks, prefill_mask
from actors.engine.progress import Progress
from actors.engine.requests import Completion, FinishReason, GenerationRequest, SamplingParams
from actors.engine.sampling import Sampled, row_key, sample, uniforms
from actors.engine.stopping import Stopping
from actors.models import checkpoint

FILLER = 0
"""Token id at padded places: the pad id may be missing, lie outside the embedding, or stand inside a prompt."""

CAPACITY_STEP = 64

PREFILL_TOKENS = 8192
"""Tokens, padded ones counted, that one prefill pass takes: enough to keep a device busy, few enough for its memory."""

PREFILL_SPREAD = 0.75
"""The shortest prompt of a prefill pass is at least this fraction of the longest, so little of the pass is padding."""


@dataclass(slots=True)
class _Row:
    """One request on its way to a completion."""

    request: GenerationRequest
    key: int
    budget: int
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    sampling_logprobs: list[float] = field(default_factory=list)
    completion: Completion | None = None

    def restart(self) -> None:
        self.token_ids, self.logprobs, self.sampling_logprobs = [], [], []


class PaddedEngine:
    """Generates completions for requests, at most `batch_size` at a time.

    `eos_token_ids` and `context_length` come from the checkpoint unless given; nothing else of its generation
    settings is used. `progress` may be read from another thread while `generate` runs.

    Raises ValueError for a batch size below 1, for models whose state is not a key-value cache, and for those whose
    rotary frequencies depend on the longest row of a batch (rope types dynamic and longrope), unless `batch_size` is 1.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        batch_size: int,
        eos_token_ids: Collection[int] | None = None,
        context_length: int | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        if model._is_stateful:
            raise ValueError(f"{type(model).__name__} keeps a recurrent state, which left padding would disturb")
        stackable = GrowingCache(model.config).is_plain
        rope = checkpoint.batch_dependent_rope(model.config)
        if rope and batch_size > 1:
            raise ValueError(
                f"rope type {rope!r} chooses frequencies by the longest row, so a completion would depend on its "
                "neighbours: set batch_size to 1"
            )
        self.progress = Progress()
        self._stackable = stackable
        self._model = model
        self._tokenizer = tokenizer
        self._batch_size = batch_size
        self._eos = checkpoint.eos_token_ids(model.config, model.generation_config, tokenizer)
        if eos_token_ids is not None:
            self._eos = frozenset(eos_token_ids)
        self._context_length = context_length or checkpoint.context_length(model.config)
        embedding = model.get_input_embeddings()
        assert isinstance(embedding, torch.nn.Embedding)
        self._vocab_size = embedding.num_embeddings
        self._vocab_limit = checkpoint.known_tokens(tokenizer)
        accepted = inspect.signature(model.forward).parameters
        self._takes_positions = "position_ids" in accepted
        self._cache_argument = "cache" if "cache" in accepted else "past_key_values"
        self._options = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}

    def generate(
        self,
        requests: Sequence[GenerationRequest],
        sampling: SamplingParams,
        should_stop: Callable[[], bool] | None = None,
    ) -> list[Completion]:
        """Return one completion a request, in the order of `requests`.

        A request that cannot be served (empty prompt, no room in the context, unknown token id, logits that are not
        finite, too little memory for it alone) gives a completion with finish_reason "error"; the others go on.
        When `should_stop` returns True between two steps, unfinished requests are missing from the result.
        """
        rows = [self._row(request, sampling) for request in requests]
        # Rows of like length share a batch, so little is padded; the longest first, so memory runs out early or never.
        waiting = sorted((row for row in rows if row.completion is None), key=lambda row: -len(row.request.prompt_ids))
        stopping = Stopping(self._tokenizer, self._eos, sampling.stop)
        size = self._batch_size
        while waiting and not (should_stop and should_stop()):
            batch = waiting[:size]
            if self._fits_in_memory(batch, sampling, stopping, should_stop):
                waiting = waiting[size:]
                continue
            waiting = [row for row in waiting if row.completion is None]
            size = max(1, len(batch) // 2)
            if len(batch) == 1:
                self._finish(batch[0], Completion.failed(batch[0].request, "out of device memory with a batch of one"))
                waiting = waiting[1:]
        self.progress.live_rows = 0
        return [row.completion for row in rows if row.completion is not None]

    def _row(self, request: GenerationRequest, sampling: SamplingParams) -> _Row:
        length = len(request.prompt_ids)
        room = sampling.max_new_tokens
        if self._context_length is not None:
            room = min(room, self._context_length - length)
        row = _Row(request, row_key(sampling.seed, request.problem_id, request.sample_index), room)
        if length == 0:
            self._finish(row, Completion.failed(request, "the prompt is empty"))
        elif room < 1:
            reason = f"the prompt of {length} tokens leaves no room in the model's context of {self._context_length}"
            self._finish(row, Completion.failed(request, reason))
        elif not 0 <= min(request.prompt_ids) <= max(request.prompt_ids) < self._vocab_size:
            reason = f"the prompt holds a token id outside 0 to {self._vocab_size - 1}, the model's vocabulary"
            self._finish(row, Completion.failed(request, reason))
        return row

    def _fits_in_memory(
        self,
        batch: list[_Row],
        sampling: SamplingParams,
        stopping: Stopping,
        should_stop: Callable[[], bool] | None,
    ) -> bool:
        try:
            self._run(batch, sampling, stopping, should_stop)
        except torch.OutOfMemoryError:
            pass
        else:
            return True
        # Outside the handler, whose traceback would keep the tensors of the failed attempt alive.
        for row in batch:
            if row.completion is None:
                self.progress.tokens_sampled -= len(row.token_ids)
                row.restart()
        if self._model.device.type == "cuda":
            torch.cuda.empty_cache()
        return False

    @torch.inference_mode()
    def _run(
        self,
        batch: list[_Row],
        sampling: SamplingParams,
        stopping: Stopping,
        should_stop: Callable[[], bool] | None,
    ) -> None:
        live = list(batch)
        lengths = [len(row.request.prompt_ids) for row in live]
        columns = max(lengths)
        capacity = columns + max(row.budget for row in live)
        masks = DecodeMasks(
            self._model,
            [columns - length for length in lengths],
            columns,
            -(-capacity // CAPACITY_STEP) * CAPACITY_STEP,
        )
        logits, cache = self._prefill([row.request.prompt_ids for row in live])
        positions = torch.tensor(lengths, device=self._model.device).unsqueeze(-1) - 1

        while True:
            self.progress.live_rows = len(live)
            drawn = self._sample(logits, live, sampling)
            finished = self._append(live, drawn, stopping)
            if all(finished) or (should_stop and should_stop()):
                return
            ids, positions = drawn.ids.unsqueeze(-1), positions + 1
            if any(finished):
                order, moves = swap_order(finished)
                live = [live[row] for row in order]
                cache.retain(order, moves, masks.retain(order, cache.is_plain))
                kept = torch.tensor(order, device=ids.device)
                ids, positions = ids[kept], positions[kept]
            logits = self._forward(ids, positions, masks.next(cache), cache)
            self.progress.decode_steps += 1

    def _prefill(self, prompts: list[tuple[int, ...]]) -> tuple[Tensor, GrowingCache]:
        """(B, V) logits after each of `prompts`, longest first, and the cache that holds them."""
        caches, logits = [], []
        whole = [slice(0, len(prompts))]
        groups = prefill_groups([len(prompt) for prompt in prompts]) if self._stackable else whole
        for group in groups:
            columns = len(prompts[group][0])
            padding = [columns - len(prompt) for prompt in prompts[group]]
            ids = [[FILLER] * pad + list(prompt) for pad, prompt in zip(padding, prompts[group], strict=True)]
            first = torch.tensor(padding).unsqueeze(-1)
            positions = (torch.arange(columns) - first).clamp(min=0)
            cache = GrowingCache(self._model.config)
            mask = prefill_mask(self._model, padding, columns, cache)
            device = self._model.device
            logits.append(self._forward(torch.tensor(ids).to(device), positions.to(device), mask, cache))
            caches.append(cache)
            self.progress.prefill_passes += 1
        if len(caches) == 1:
            return logits[0], caches[0]
        joint = GrowingCache(self._model.config)
        joint.stack(caches)
        return torch.cat(logits), joint

    def _forward(self, ids: Tensor, positions: Tensor, mask: Any, cache: GrowingCache) -> Tensor:
        """(B, V) logits after the last of `ids` (B, T), whose keys and values are added to `cache`."""
        arguments: dict[str, Any] = {self._cache_argument: cache}
        if self._takes_positions:
            arguments["position_ids"] = positions
        output = self._model(ids, attention_mask=mask, use_cache=True, return_dict=True, **arguments, **self._options)
        return output.logits[:, -1]

    def _sample(self, logits: Tensor, live: list[_Row], sampling: SamplingParams) -> Sampled:
        uniform = None
        if not sampling.greedy:
            keys = np.array([row.key for row in live], dtype=np.uint64)
            positions = np.array([len(row.token_ids) for row in live], dtype=np.uint64)
            uniform = torch.from_numpy(uniforms(keys, positions)).to(logits.device)
        return sample(logits, sampling, uniform, self._vocab_limit)

    def _append(self, live: list[_Row], drawn: Sampled, stopping: Stopping) -> list[bool]:
        """Give each row its token; complete the rows that end with it. Returns which did."""
        # Ids are exact in float64, and one tensor is one wait for the device.
        ids, logprobs, sampling_logprobs = torch.stack([part.double() for part in drawn]).tolist()
        for row, token, logprob, sampling_logprob in zip(live, ids, logprobs, sampling_logprobs, strict=True):
            if not math.isfinite(logprob):
                error = f"the model's logits for token {len(row.token_ids)} are not finite (NaN or infinity)"
                self._finish(row, Completion.failed(row.request, error))
                continue
            row.token_ids.append(int(token))
            row.logprobs.append(logprob)
            row.sampling_logprobs.append(sampling_logprob)
            self.progress.tokens_sampled += 1
            reason: FinishReason | None = stopping.reason(row.token_ids)
            if reason is None and len(row.token_ids) == row.budget:
                reason = "length"
            if reason is not None:
                self._finish(row, self._completion(row, reason, stopping))
        return [row.completion is not None for row in live]

    def _completion(self, row: _Row, reason: FinishReason, stopping: Stopping) -> Completion:
        return Completion(
            row.request.problem_id,
            row.request.sample_index,
            stopping.text(row.token_ids),
            tuple(row.token_ids),
            tuple(row.logprobs),
            tuple(row.sampling_logprobs),
            reason,
        )

    def _finish(self, row: _Row, completion: Completion) -> None:
        row.completion = completion
        self.progress.requests_done += 1


def prefill_groups(lengths: list[int]) -> list[slice]:
    """Cut prompts of falling `lengths` into prefill passes of like length. Every pass takes at least one."""
    groups = []
    start = 0
    for end in range(1, len(lengths) + 1):
        longest = lengths[start]
        full = end < len(lengths) and (end + 1 - start) * longest > PREFILL_TOKENS
        if end == len(lengths) or full or lengths[end] < PREFILL_SPREAD * longest:
            groups.append(slice(start, end))
            start = end
    return groups
