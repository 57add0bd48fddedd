"""The learner: one optimiser step from graded rollouts, or from worked solutions."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from actors.learning.batches import Line, MicroBatch, Row, assemble, cut, padding_share
from actors.learning.divergence import agreement
from actors.learning.losses import (
    Diagnostics,
    PolicyTokens,
    distillation_loss,
    policy_loss,
    supervised_loss,
)
from actors.learning.policy import Policy
from actors.learning.reports import mean_diagnostics, reward_metrics, rollout_metrics
from actors.learning.rollouts import Example, RolloutGroup
from actors.learning.schedule import learning_rate
from actors.learning.selection import Selection, select
from actors.learning.settings import LearnerSettings

Metrics = dict[str, float]

GPU_TOKENS = 4096
CPU_TOKENS = 1024
"""Tokens of a micro-batch where the settings name none. A processor is busy with few, which pad less and whose logits
fit one chunk, so that none are computed twice."""


class Learner:
    """A policy and its optimiser. `model` is taken over: it is changed in place.

    Give the model that training began with even when resuming, and load the checkpoint afterwards: the reference
    policy is made here.

    step_count: calls of `step` and `supervised_step`, what the learning rate depends on.
    policy_version: steps that changed the weights, what generators compare theirs with.
    passes: micro-batches computed so far; it moves while a step is on its way.
    """

    def __init__(self, model: PreTrainedModel, settings: LearnerSettings) -> None:
        self.settings = settings
        self.policy = Policy(model, settings)
        self.token_budget = settings.token_budget or (CPU_TOKENS if self.policy.device.type == "cpu" else GPU_TOKENS)
        self.step_count = 0
        self.policy_version = 0
        self.passes = 0
        trained = self.policy.trained().values()
        optimizer = settings.optimizer
        families: list[dict[str, Any]] = [
            {"params": [weight for weight in trained if weight.dim() >= 2]},
            {"params": [weight for weight in trained if weight.dim() < 2], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(
            [family for family in families if family["params"]],
            lr=optimizer.lr,
            betas=optimizer.betas,
            eps=optimizer.eps,
            weight_decay=optimizer.weight_decay,
            fused=True,
        )

    def step(self, groups: Sequence[RolloutGroup]) -> Metrics:
        """Update the policy from `groups`; return the step's metrics.

        The whole batch is one update (num_iterations updates). Where no rollout has anything to teach, or the gradient
        is not finite, weights and version stay as they are and `update/skipped`, a share of the updates, is 1.
        Raises ValueError for rollouts of a future version and rows beyond the model's context.
        """
        start = time.perf_counter()
        self._check_versions(groups)
        selection = select(groups, self.settings.advantages, self.settings.loss)
        self._check_lengths(selection.rows)
        metrics = rollout_metrics(groups, self.policy_version) | reward_metrics(groups, selection)
        metrics |= self._update(selection) if selection.rows else {"update/skipped": 1.0}
        return self._finish(metrics, selection.rows, start)

    def supervised_step(self, examples: Sequence[Example]) -> Metrics:
        """Update the policy towards the answers of `examples`, each answer token of the step weighing the same."""
        start = time.perf_counter()
        rows = self._example_rows(examples)
        diagnostics = self._accumulate(rows, self._supervised_loss(examples))
        metrics = self._descend() | mean_diagnostics(diagnostics)
        return self._finish(metrics, rows, start)

    @torch.no_grad()
    def supervised_loss(self, examples: Sequence[Example]) -> Metrics:
        """The same losses on held-out examples; nothing changes."""
        losses = self._supervised_loss(examples)
        rows = self._example_rows(examples)
        parts = []
        for batch in self._micro_batches(rows):
            parts.append(losses(batch)[1])
            self.passes += 1
        return mean_diagnostics(parts)

    def weights(self, dtype: torch.dtype = torch.bfloat16) -> Iterator[tuple[str, Tensor]]:
        """The policy's weights for `actors.models.update.copy_weights`; see `Policy.weights`."""
        return self.policy.weights(dtype)

    def _check_versions(self, groups: Sequence[RolloutGroup]) -> None:
        newest = max((rollout.policy_version for group in groups for rollout in group.rollouts), default=0)
        if newest > self.policy_version:
            raise ValueError(
                f"a rollout claims policy version {newest}, but the learner is at {self.policy_version}: "
                "rollouts of another run were mixed in, or the learner was not resumed from its checkpoint"
            )

    def _update(self, selection: Selection) -> Metrics:
        old: dict[tuple[int, ...], Tensor] = {}
        updates: list[Metrics] = []
        compared: Metrics = {}
        for _ in range(self.settings.num_iterations):
            diagnostics = self._accumulate(selection.rows, lambda batch: self._policy_loss(selection, batch, old))
            if not updates:
                compared = agreement(
                    torch.cat([part["logprobs"] for part in diagnostics]),
                    torch.cat([part["sampling_logprobs"] for part in diagnostics]),
                )
            updates.append(mean_diagnostics(diagnostics) | self._descend())
        return compared | {name: sum(each[name] for each in updates) / len(updates) for name in updates[0]}

    def _policy_loss(
        self, selection: Selection, batch: MicroBatch, old: dict[tuple[int, ...], Tensor]
    ) -> tuple[Tensor, Diagnostics]:
        settings = self.settings
        statistics = self.policy.score(batch, batch.targets.unsqueeze(-1), settings.temperature)
        logprobs = statistics.logprobs.squeeze(-1)
        sampled = [value for index in batch.rows for value in selection.rollouts[index].sampling_logprobs]
        sampling_logprobs = torch.tensor(sampled, dtype=torch.float32, device=logprobs.device)
        if settings.loss.ratio_to == "generator":
            old_logprobs = sampling_logprobs
        else:
            # Before the first update of the step the old policy is the policy: the ratio is exactly 1.
            old_logprobs = old.setdefault(batch.rows, logprobs.detach())
        rows = torch.tensor(batch.rows)
        loss, diagnostics = policy_loss(
            PolicyTokens(
                sequence=batch.sequence,
                weights=selection.weights[rows].to(logprobs.device)[batch.sequence],
                advantages=selection.advantages[rows].to(logprobs.device)[batch.sequence],
                logprobs=logprobs,
                entropy=statistics.entropy if settings.loss.entropy_coef else statistics.entropy.detach(),
                old_logprobs=old_logprobs,
                sampling_logprobs=sampling_logprobs,
                reference_logprobs=(
                    self.policy.score_reference(batch, settings.temperature) if settings.loss.beta else None
                ),
            ),
            settings.loss,
        )
        return loss, {**diagnostics, "logprobs": logprobs.detach(), "sampling_logprobs": sampling_logprobs}

    def _supervised_loss(self, examples: Sequence[Example]) -> Callable[[MicroBatch], tuple[Tensor, Diagnostics]]:
        """The loss of a micro-batch of `examples`, whose denominator is that of all of them."""
        taught = sum(example.teacher is not None for example in examples)
        if 0 < taught < len(examples):
            raise ValueError(f"{taught} of {len(examples)} examples carry a teacher's tokens: either all or none must")
        tokens = sum(len(example.answer_ids) for example in examples)

        def loss(batch: MicroBatch) -> tuple[Tensor, Diagnostics]:
            ids = batch.targets.unsqueeze(-1)
            teachers = [example.teacher for index in batch.rows if (example := examples[index]).teacher is not None]
            if teachers:
                found = [row for teacher in teachers if teacher is not None for row in teacher.ids]
                ids = torch.cat([ids, torch.tensor(found, device=ids.device)], dim=-1)
            statistics = self.policy.score(batch, ids, temperature=1.0)
            own = statistics.logprobs[:, 0]
            weights = torch.full_like(own, 1 / tokens)
            if not teachers:
                loss, diagnostics = supervised_loss(weights, own)
            else:
                values = [row for teacher in teachers if teacher is not None for row in teacher.logprobs]
                loss, diagnostics = distillation_loss(
                    weights,
                    own,
                    statistics.logprobs[:, 1:],
                    torch.tensor(values, dtype=torch.float32, device=own.device),
                    self.settings.teacher_weight,
                )
            return loss, {**diagnostics, "entropy": statistics.entropy.detach()}

        return loss

    def _example_rows(self, examples: Sequence[Example]) -> list[Row]:
        if not examples:
            raise ValueError("a supervised step needs at least one example")
        rows = [Row(example.prompt_ids, example.answer_ids) for example in examples]
        self._check_lengths(rows)
        return rows

    def _check_lengths(self, rows: Sequence[Row]) -> None:
        limit = self.policy.context_length
        longest = max(map(len, rows), default=0)
        if limit is not None and longest > limit:
            raise ValueError(f"a row of {longest} tokens exceeds the model's context of {limit}: shorten or drop it")

    def _micro_batches(self, rows: Sequence[Row]) -> Iterator[MicroBatch]:
        for lines in self._cut(rows):
            yield assemble(rows, lines, self.policy.device)

    def _cut(self, rows: Sequence[Row]) -> list[list[Line]]:
        return cut(rows, self.token_budget, self.policy.shared_tokens)

    def _accumulate(
        self, rows: Sequence[Row], loss_of: Callable[[MicroBatch], tuple[Tensor, Diagnostics]]
    ) -> list[Diagnostics]:
        """Add the gradients of all micro-batches; return what each reported."""
        self.optimizer.zero_grad(set_to_none=True)
        parts = []
        with self.policy.steady_weights():
            for batch in self._micro_batches(rows):
                loss, diagnostics = loss_of(batch)
                loss.backward()
                self.passes += 1
                parts.append(diagnostics)
        return parts

    def _descend(self) -> Metrics:
        """One update with the accumulated gradient, unless that is not finite."""
        lr = learning_rate(self.step_count, self.settings.optimizer)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        norm = torch.nn.utils.clip_grad_norm_(
            self.policy.trained().values(), self.settings.optimizer.max_grad_norm
        ).item()
        finite = math.isfinite(norm)
        if finite:
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return {"grad_norm": norm, "lr": lr, "update/skipped": float(not finite)}

    def _finish(self, metrics: Metrics, rows: Sequence[Row], start: float) -> Metrics:
        self.step_count += 1
        self.policy_version += metrics["update/skipped"] < 1
        metrics["tokens/trained"] = float(sum(len(row.completion_ids) for row in rows))
        metrics["tokens/padding_share"] = padding_share(rows, self._cut(rows))
        metrics["time/update"] = time.perf_counter() - start
        return metrics
