"""What all engines do alike: turn requests into rows, logits into tokens, and finished rows into completions."""

import math
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from actors.engine.progress import Progress
from actors.engine.requests import Completion, FinishReason, GenerationRequest, SamplingParams, Timing
from actors.engine.sampling import Sampled, row_key, sample, uniforms
from actors.engine.stopping import Stopping
from actors.models import checkpoint


@dataclass(slots=True, eq=False)
class Row:
    """One request on its way to a completion."""

    ticket: int
    request: GenerationRequest
    sampling: SamplingParams
    key: int
    budget: int
    """Tokens that its completion may have."""
    arrived: float
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    sampling_logprobs: list[float] = field(default_factory=list)
    first_token: float = 0.0
    policy_version: int = 0
    completion: Completion | None = None

    @property
    def context(self) -> tuple[int, ...]:
        """What the next token follows: the prompt, and the completion so far."""
        return (*self.request.prompt_ids, *self.token_ids)


class RowKeeper:
    """Opens rows, draws their tokens and closes them.

    `eos_token_ids` and `context_length` come from the checkpoint unless given; nothing else of its generation settings
    is used.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        progress: Progress,
        eos_token_ids: Collection[int] | None = None,
        context_length: int | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self.progress = progress
        self._eos = checkpoint.eos_token_ids(model.config, model.generation_config, tokenizer)
        if eos_token_ids is not None:
            self._eos = frozenset(eos_token_ids)
        self.context_length = context_length or checkpoint.context_length(model.config)
        embedding = model.get_input_embeddings()
        assert isinstance(embedding, torch.nn.Embedding)
        self._vocab_size = embedding.num_embeddings
        self._vocab_limit = checkpoint.known_tokens(tokenizer)
        self._stopping: dict[tuple[str, ...], Stopping] = {}
        self._tickets = 0

    def open(self, request: GenerationRequest, sampling: SamplingParams) -> Row:
        """A new row; it has its completion already if the request cannot be served."""
        length = len(request.prompt_ids)
        room = sampling.max_new_tokens
        if self.context_length is not None:
            room = min(room, self.context_length - length)
        self._tickets += 1
        key = row_key(sampling.seed, request.problem_id, request.sample_index)
        row = Row(self._tickets, request, sampling, key, room, time.monotonic())
        if length == 0:
            self.fail(row, "the prompt is empty")
        elif room < 1:
            self.fail(
                row, f"the prompt of {length} tokens leaves no room in the model's context of {self.context_length}"
            )
        elif not 0 <= min(request.prompt_ids) <= max(request.prompt_ids) < self._vocab_size:
            self.fail(row, f"the prompt holds a token id outside 0 to {self._vocab_size - 1}, the model's vocabulary")
        return row

    def advance(self, rows: Sequence[Row], logits: Tensor, policy_version: int) -> list[bool]:
        """Give each row its next token, drawn from its line of `logits` (B, V), and close those that end with it.

        Returns which did. The tokens are in the rows.
        """
        finished = [False] * len(rows)
        for places, sampling in _by_sampling(rows):
            chosen = [rows[place] for place in places]
            part = logits if len(places) == len(rows) else logits[torch.tensor(places, device=logits.device)]
            drawn = self._draw(part, chosen, sampling)
            # Ids are exact in float64, and one tensor is one wait for the device.
            ids, logprobs, sampling_logprobs = torch.stack([part.double() for part in drawn]).tolist()
            now = time.monotonic()
            for place, row, token, logprob, at_temperature in zip(
                places, chosen, ids, logprobs, sampling_logprobs, strict=True
            ):
                self._append(row, int(token), logprob, at_temperature, now, policy_version)
                finished[place] = row.completion is not None
        return finished

    def fail(self, row: Row, error: str) -> None:
        self._close(row, Completion.failed(row.request, error))

    def _draw(self, logits: Tensor, rows: list[Row], sampling: SamplingParams) -> Sampled:
        uniform = None
        if not sampling.greedy:
            keys = np.array([row.key for row in rows], dtype=np.uint64)
            positions = np.array([len(row.token_ids) for row in rows], dtype=np.uint64)
            uniform = torch.from_numpy(uniforms(keys, positions)).to(logits.device)
        return sample(logits, sampling, uniform, self._vocab_limit)

    def _append(
        self, row: Row, token: int, logprob: float, sampling_logprob: float, now: float, policy_version: int
    ) -> None:
        if not math.isfinite(logprob):
            self.fail(row, f"the model's logits for token {len(row.token_ids)} are not finite (NaN or infinity)")
            return
        if not row.token_ids:
            row.first_token, row.policy_version = now, policy_version
        row.token_ids.append(token)
        row.logprobs.append(logprob)
        row.sampling_logprobs.append(sampling_logprob)
        self.progress.tokens_sampled += 1
        stopping = self._stop_rule(row.sampling.stop)
        reason: FinishReason | None = stopping.reason(row.token_ids)
        if reason is None and len(row.token_ids) == row.budget:
            reason = "length"
        if reason is not None:
            completion = Completion(
                row.request.problem_id,
                row.request.sample_index,
                stopping.text(row.token_ids),
                tuple(row.token_ids),
                tuple(row.logprobs),
                tuple(row.sampling_logprobs),
                reason,
                policy_version=row.policy_version,
                timing=Timing(row.first_token - row.arrived, now - row.arrived),
            )
            self._close(row, completion)

    def _close(self, row: Row, completion: Completion) -> None:
        row.completion = completion
        self.progress.requests_done += 1

    def _stop_rule(self, stop: tuple[str, ...]) -> Stopping:
        if stop not in self._stopping:
            self._stopping[stop] = Stopping(self._tokenizer, self._eos, stop)
        return self._stopping[stop]


def _by_sampling(rows: Sequence[Row]) -> list[tuple[list[int], SamplingParams]]:
    """Places of the rows that are sampled alike. Nearly always it is one group of all, found without hashing."""
    first = rows[0].sampling
    if all(row.sampling is first for row in rows):
        return [(list(range(len(rows))), first)]
    groups: dict[SamplingParams, list[int]] = {}
    for place, row in enumerate(rows):
        groups.setdefault(row.sampling, []).append(place)
    return [(places, sampling) for sampling, places in groups.items()]
