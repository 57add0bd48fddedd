"""The continuous engine: requests join and leave at every step, over one pool of keys and values."""

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from actors.engine.continuous import sequence as scheduled
from actors.engine.continuous.attention.layer import Attention
from actors.engine.continuous.decoder import Decoder
from actors.engine.continuous.scheduler import Plan, Scheduler
from actors.engine.continuous.step import Step, build_step
from actors.engine.engine import Engine
from actors.engine.limits import Limits, Work
from actors.engine.progress import Progress
from actors.engine.requests import Completion, GenerationRequest, SamplingParams
from actors.engine.rows import Row, RowKeeper


class ContinuousEngine(Engine):
    """Puts rows, scheduler, decoder and attention together. `actors.engine.continuous.build` makes one for a model."""

    def __init__(
        self,
        decoder: Decoder,
        attention: Attention,
        scheduler: Scheduler,
        keeper: RowKeeper,
        device: torch.device,
        least_rows: int = 1,
        limits: Limits | None = None,
    ) -> None:
        self.progress: Progress = keeper.progress
        self.policy_version = 0
        self.decoder = decoder
        self.attention = attention
        self.scheduler = scheduler
        self._keeper = keeper
        self._device = device
        self._least_rows = least_rows
        self._limits = limits
        self._rows: dict[int, Row] = {}
        self._sequences: dict[int, scheduled.Sequence] = {}
        self._tokens: dict[int, list[int]] = {}
        self._prompts: dict[tuple[int, ...], tuple[int, int]] = {}
        self._numbers = 0
        self._done: list[Row] = []

    def add(self, requests: Sequence[GenerationRequest], sampling: SamplingParams) -> list[int]:
        rows = [self._keeper.open(request, sampling) for request in requests]
        for row in rows:
            if row.completion is not None:
                self._done.append(row)
                continue
            prompt = row.request.prompt_ids
            sequence = scheduled.Sequence(row.ticket, self._number(prompt), len(prompt), row.budget)
            self._rows[row.ticket] = row
            self._sequences[row.ticket] = sequence
            self._tokens[row.ticket] = list(prompt)
            self.scheduler.add(sequence)
        self._count()
        return [row.ticket for row in rows]

    def step(self) -> list[tuple[int, Completion]]:
        """One forward pass: the newest token of every row that decodes, and pieces of prompts beside them."""
        try:
            self._step()
        except torch.OutOfMemoryError:
            fits = False
        else:
            fits = True
        if not fits:  # outside the handler, whose traceback would keep the tensors of the failed attempt alive
            self._run_fewer()
        self._count()
        if not self._rows:
            self.scheduler.check()
        done, self._done = self._done, []
        return [(row.ticket, row.completion) for row in done if row.completion is not None]

    def abort(self, tickets: Collection[int]) -> None:
        unwanted = set(tickets)
        self._done = [row for row in self._done if row.ticket not in unwanted]
        for ticket in unwanted & set(self._rows):
            self.scheduler.drop(self._sequences[ticket])
            self._forget(ticket)
        self._count()

    @property
    def busy(self) -> bool:
        return bool(self._rows or self._done)

    def update_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        self.decoder.update(weights)
        self.scheduler.forget_computed()
        self.policy_version = version

    @property
    def description(self) -> str:
        """What it runs with, in a few words."""
        return f"continuous engine, {self.decoder.name} decoder, {self.attention.name} attention"

    def stats(self) -> dict[str, Any]:
        """What fills the pool now, and what the machine was measured to do."""
        runs = self.scheduler.runs
        machine = {"machine": str(self._limits.machine)} if self._limits is not None else {}
        tokens = {
            "kv_tokens": runs.tokens,
            "kv_tokens_used": runs.tokens - runs.free,
            "kv_tokens_reached": runs.reached,
        }
        return {**tokens, **machine}

    def _step(self) -> None:
        plan = self.scheduler.plan()
        for sequence in plan.too_large:
            self._refuse(sequence)
        if not plan.pieces:
            time.sleep(self.scheduler.opens_in_s)
            return
        start = time.perf_counter()
        self.attention.copy(plan.copies)
        step = build_step(plan.pieces, self._tokens, self._device, self._least_rows)
        logits = self.decoder.forward(step)
        self.scheduler.computed(plan)
        self._count_step(plan, step)
        self._sample(plan, logits)
        self.progress.busy_s += time.perf_counter() - start

    def _count_step(self, plan: Plan, step: Step) -> None:
        progress = self.progress
        progress.steps += 1
        progress.decode_steps += any(piece.samples for piece in plan.pieces)
        progress.row_steps += len(self.scheduler.live)
        progress.place_steps += self.scheduler.batch_size
        run = sum(piece.count for piece in plan.pieces)
        sampling = sum(piece.samples for piece in plan.pieces)
        progress.prompt_tokens += run - sampling
        progress.padding_tokens += step.tokens - run
        if self._limits is not None:
            contexts = [piece.first + piece.count for piece in plan.pieces]
            pairs = sum(piece.count * (2 * piece.first + piece.count + 1) // 2 for piece in plan.pieces)
            progress.least_s += self._limits.seconds(Work(run, sampling, sum(contexts), pairs))

    def _sample(self, plan: Plan, logits: Tensor) -> None:
        """Draw a token for each row that has its logits, and for those that start from the same prompt with it."""
        drawn: list[scheduled.Sequence] = []
        lines: list[int] = []
        for line, piece in enumerate(each for each in plan.pieces if each.samples):
            together = [piece.sequence, *piece.sequence.followers]
            self.attention.copy(self.scheduler.followers_start(piece.sequence))
            drawn += together
            lines += [line] * len(together)
        if not drawn:
            return
        if lines != list(range(len(logits))):
            logits = logits[torch.tensor(lines, device=logits.device)]
        rows = [self._rows[sequence.ticket] for sequence in drawn]
        finished = self._keeper.advance(rows, logits, self.policy_version)
        over = []
        for sequence, row, ended in zip(drawn, rows, finished, strict=True):
            if row.token_ids:
                self._tokens[sequence.ticket].append(row.token_ids[-1])
                self.scheduler.sampled(sequence)
            if ended:
                over.append(sequence)
                self._done.append(row)
        self.scheduler.finish(over)
        for sequence in over:
            self._forget(sequence.ticket)

    def _run_fewer(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        live = list(self.scheduler.live)
        if len(live) == 1:
            self.scheduler.drop(live[0])
            self._fail(live[0], "out of device memory with a batch of one")
        else:
            self.scheduler.shrink()

    def _refuse(self, sequence: scheduled.Sequence) -> None:
        self._fail(
            sequence,
            f"prompt and completion may need {sequence.most} tokens of key-value cache, and there are "
            f"{self.scheduler.runs.tokens}: raise generation.kv_cache_tokens or lower max_new_tokens",
        )

    def _fail(self, sequence: scheduled.Sequence, error: str) -> None:
        row = self._rows[sequence.ticket]
        self._keeper.fail(row, error)
        self._done.append(row)
        self._forget(sequence.ticket)

    def _number(self, prompt: tuple[int, ...]) -> int:
        """A number for the prompt, the same for all its samples that are there together."""
        if prompt not in self._prompts:
            self._numbers += 1
            self._prompts[prompt] = (self._numbers, 0)
        number, users = self._prompts[prompt]
        self._prompts[prompt] = (number, users + 1)
        return number

    def _forget(self, ticket: int) -> None:
        prompt = self._rows.pop(ticket).request.prompt_ids
        del self._sequences[ticket], self._tokens[ticket]
        number, users = self._prompts[prompt]
        if users == 1:
            del self._prompts[prompt]
        else:
            self._prompts[prompt] = (number, users - 1)

    def _count(self) -> None:
        progress, scheduler = self.progress, self.scheduler
        progress.live_rows, progress.waiting = len(scheduler.live), len(scheduler.waiting)
        progress.preemptions, progress.prefix_tokens_shared = scheduler.preemptions, scheduler.tokens_shared
