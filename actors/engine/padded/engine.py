"""Batched generation with a left-padded, statically formed batch: the readable engine, and the oracle of the others.

Works with any causal language model of transformers that keeps its past in a key-value cache. A batch is prefilled
once, then decoded a token at a time; a finished row leaves the batch at once.
"""

import inspect
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from actors.engine.engine import Engine
from actors.engine.padded.cache import GrowingCache, swap_order
from actors.engine.padded.masks import DecodeMasks, prefill_mask
from actors.engine.progress import Progress
from actors.engine.requests import Completion, GenerationRequest, SamplingParams
from actors.engine.rows import Row, RowKeeper
from actors.models import checkpoint
from actors.models.update import copy_weights

FILLER = 0
"""Token id at padded places: the pad id may be missing, lie outside the embedding, or stand inside a prompt."""

CAPACITY_STEP = 64

PREFILL_TOKENS = 8192
"""Tokens, padded ones counted, that one prefill pass takes: enough to keep a device busy, few enough for its memory."""

PREFILL_SPREAD = 0.75
"""The shortest prompt of a prefill pass is at least this fraction of the longest, so little of the pass is padding."""


class PaddedEngine(Engine):
    """Generates completions for requests, at most `batch_size` at a time, those added together in one batch.

    `eos_token_ids` and `context_length` come from the checkpoint unless given; nothing else of its generation
    settings is used. `note` joins the description: why it is this engine.

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
        note: str = "",
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
        self.policy_version = 0
        self._keeper = RowKeeper(model, tokenizer, self.progress, eos_token_ids, context_length)
        self._stackable = stackable
        self._note = note
        self._model = model
        self._batch_size = batch_size
        self._waiting: list[Row] = []
        self._live: list[Row] = []
        self._done: list[Row] = []
        self._aborted: set[int] = set()
        self._decoding: Iterator[None] | None = None
        accepted = inspect.signature(model.forward).parameters
        self._takes_positions = "position_ids" in accepted
        self._cache_argument = "cache" if "cache" in accepted else "past_key_values"
        self._options = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}

    def add(self, requests: Sequence[GenerationRequest], sampling: SamplingParams) -> list[int]:
        rows = [self._keeper.open(request, sampling) for request in requests]
        self._done += [row for row in rows if row.completion is not None]
        self._queue(row for row in rows if row.completion is None)
        return [row.ticket for row in rows]

    def step(self) -> list[tuple[int, Completion]]:
        """One token for every row of the batch; the first step of a batch prefills it."""
        if self._decoding is None and self._waiting:
            self._live, self._waiting = self._waiting[: self._batch_size], self._waiting[self._batch_size :]
            self._decoding = self._decode()
        start = time.perf_counter()
        if self._decoding is not None and not self._fits_in_memory(self._decoding):
            self._halve()
        self.progress.busy_s += time.perf_counter() - start
        done, self._done = self._done, []
        self._count()
        return [(row.ticket, row.completion) for row in done if row.completion is not None]

    def abort(self, tickets: Collection[int]) -> None:
        unwanted = set(tickets)
        self._waiting = [row for row in self._waiting if row.ticket not in unwanted]
        self._done = [row for row in self._done if row.ticket not in unwanted]
        self._aborted = {row.ticket for row in self._live} & (self._aborted | unwanted)
        self._count()

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._live or self._done)

    @property
    def description(self) -> str:
        attention = f"padded engine, {self._model.config._attn_implementation} attention"
        return f"{attention} ({self._note})" if self._note else attention

    def update_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        copy_weights(self._model, weights)
        self.policy_version = version
        self._interrupt()

    def _queue(self, rows: Iterable[Row]) -> None:
        # Rows of like length share a batch, so little is padded; the longest first, so memory runs out early or never.
        self._waiting = sorted([*self._waiting, *rows], key=lambda row: -len(row.context))
        self._count()

    def _count(self) -> None:
        self.progress.live_rows, self.progress.waiting = len(self._live), len(self._waiting)

    def _interrupt(self) -> None:
        """Back to the queue with what is running; it goes on later from the tokens that it has."""
        rows, self._live, self._decoding = self._live, [], None
        self._queue(row for row in rows if row.completion is None and row.ticket not in self._aborted)

    def _fits_in_memory(self, decoding: Iterator[None]) -> bool:
        try:
            if next(decoding, self) is self:
                self._decoding = None
        except torch.OutOfMemoryError:
            return False
        return True

    def _halve(self) -> None:
        # Outside the handler, whose traceback would keep the tensors of the failed attempt alive.
        rows = self._live
        self._interrupt()
        if self._model.device.type == "cuda":
            torch.cuda.empty_cache()
        if len(rows) == 1:
            self._waiting.remove(rows[0])
            self._keeper.fail(rows[0], "out of device memory with a batch of one")
            self._done += rows
        self._batch_size = max(1, len(rows) // 2)

    @torch.inference_mode()
    def _decode(self) -> Iterator[None]:
        """Bring the live rows to their ends, a token a turn."""
        contexts = [row.context for row in self._live]
        lengths = [len(context) for context in contexts]
        columns = max(lengths)
        capacity = columns + max(row.budget - len(row.token_ids) for row in self._live)
        masks = DecodeMasks(
            self._model,
            [columns - length for length in lengths],
            columns,
            -(-capacity // CAPACITY_STEP) * CAPACITY_STEP,
        )
        logits, cache = self._prefill(contexts)
        positions = torch.tensor(lengths, device=self._model.device).unsqueeze(-1) - 1

        while True:
            finished = self._keeper.advance(self._live, logits, self.policy_version)
            gone = [over or row.ticket in self._aborted for row, over in zip(self._live, finished, strict=True)]
            self._done += [row for row in self._live if row.completion and row.ticket not in self._aborted]
            positions = positions + 1
            if any(gone):
                order, moves = swap_order(gone)
                self._live = [self._live[row] for row in order]
                if not self._live:
                    return
                cache.retain(order, moves, masks.retain(order, cache.is_plain))
                positions = positions[torch.tensor(order, device=positions.device)]
            yield
            ids = torch.tensor([[row.token_ids[-1]] for row in self._live]).to(positions.device)
            logits = self._forward(ids, positions, masks.next(cache), cache)
            self.progress.decode_steps += 1
            self.progress.steps += 1
            self.progress.row_steps += len(self._live)
            self.progress.place_steps += self._batch_size

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
            self.progress.steps += 1
            self.progress.padding_tokens += sum(padding)
            self.progress.prompt_tokens += sum(len(prompt) for prompt in prompts[group])
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
