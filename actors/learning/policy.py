"""The model that is trained: float32 weights, computed with in bfloat16 or float32, with or without LoRA."""

import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from actors.learning import attention, lora
from actors.learning.batches import MicroBatch, Row, assemble
from actors.learning.logprobs import CHUNK_BYTES, TokenStatistics, token_statistics
from actors.learning.settings import LearnerSettings
from actors.models.checkpoint import context_length
from actors.models.loading import choose_dtype

TOLERANCE = 1e-3
"""Largest difference, relative to the largest value, between two ways to compute the same in float32."""

SHARED_TOKENS = 1024
"""Most tokens of a line that several completions share. Each sees a part of the line, but attention computes all of
it: longer lines would cost more than the prompts they save."""


class Policy:
    """Takes over `model`: makes its weights float32 and trainable, and its dropout 0.

    Dropout would make the trainer's probabilities differ from the generators'. Under bfloat16, autocast multiplies
    matrices in it while weights, gradients and the residual stream stay float32: an update of 1e-6 vanishes in
    bfloat16 weights, and gradients computed wholly in bfloat16 are far less exact at the same speed.

    Raises ValueError for a model whose logits are not those of its output layer, and ImportError for LoRA
    without peft.
    """

    def __init__(self, model: PreTrainedModel, settings: LearnerSettings) -> None:
        self.device = next(model.parameters()).device
        self.compute_dtype = choose_dtype(settings.compute_dtype, self.device)
        self.context_length = context_length(model.config)
        self.base = _prepared(model, settings.gradient_checkpointing)
        if self.device.type == "cpu" and self.compute_dtype == torch.bfloat16:
            attention.attend_in_float32(self.base)
        _check_head(self.base)
        self.shared_tokens = SHARED_TOKENS if settings.share_prompts and self._can_share_prompts() else 0
        self._adapted: Any = lora.add_lora(self.base, settings.lora) if settings.lora else None
        self._reference: PreTrainedModel | None = None
        if settings.loss.beta > 0 and self._adapted is None:
            self._reference = copy.deepcopy(self.base).requires_grad_(False)

    def trained(self) -> dict[str, nn.Parameter]:
        """What the optimiser changes, by name; tied weights appear once."""
        return {name: weight for name, weight in self.base.named_parameters() if weight.requires_grad}

    @contextmanager
    def steady_weights(self) -> Iterator[None]:
        """While the weights stay as they are: autocast turns each into bfloat16 once, not once a micro-batch."""
        torch.autocast_increment_nesting()
        try:
            yield
        finally:
            if torch.autocast_decrement_nesting() == 0:
                torch.clear_autocast_cache()

    def score(self, batch: MicroBatch, ids: Tensor, temperature: float) -> TokenStatistics:
        """Log-probabilities of `ids` (N, K) at each completion token of `batch`, with gradient."""
        return self._score(self.base, batch, ids, temperature)

    @torch.no_grad()
    def score_reference(self, batch: MicroBatch, temperature: float) -> Tensor:
        """(N,) log-probabilities of the batch's tokens under the policy that training began with."""
        unadapted: AbstractContextManager[Any] = (
            self._adapted.disable_adapter() if self._adapted is not None else nullcontext()
        )
        with unadapted:
            model = self.base if self._adapted is not None else self._reference
            if model is None:
                raise ValueError("there is no reference policy, because loss.beta is 0")
            return self._score(model, batch, batch.targets.unsqueeze(-1), temperature).logprobs.squeeze(-1)

    def weights(self, dtype: torch.dtype) -> Iterator[tuple[str, Tensor]]:
        """The policy's full weights in `dtype`, LoRA's updates added, by the names of the plain model.

        A tensor may share memory with the policy's own where no conversion is needed: copy it before the next step.
        """
        named = lora.merged_weights(self.base) if self._adapted is not None else self.base.named_parameters()
        for name, weight in named:
            yield name, weight.detach().to(dtype)

    @torch.no_grad()
    def _can_share_prompts(self) -> bool:
        """Whether the model takes positions and a mask for completions that share a line, found by trying.

        Not tried are models whose mask ours would replace (windows of attention) and those that take none.
        """
        config = self.base.config.get_text_config()
        windows = getattr(config, "sliding_window", None) or any(
            kind != "full_attention" for kind in getattr(config, "layer_types", None) or ()
        )
        takes_positions = "position_ids" in inspect.signature(self.base.base_model.forward).parameters
        if windows or not takes_positions or getattr(config, "alibi", False):
            return False
        if config._attn_implementation not in ("sdpa", "eager", attention.KEY):
            return False
        rows = [Row((1, 2, 3), (4, 5, 3)), Row((1, 2, 3), (0, 5)), Row((1, 2, 3), (6, 1, 4, 2))]

        def states(lines: Sequence[tuple[int, ...]]) -> Tensor:
            batch = assemble(rows, lines, self.device)
            return self._states(self.base, batch)

        apart = states([(0,), (1,), (2,)])
        return bool((states([(0, 1, 2)]) - apart).abs().max() <= TOLERANCE * apart.abs().max())

    def _score(self, model: PreTrainedModel, batch: MicroBatch, ids: Tensor, temperature: float) -> TokenStatistics:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.compute_dtype == torch.bfloat16):
            states = self._states(model, batch)
            vocabulary = model.config.get_text_config().vocab_size
            return token_statistics(states, output_head(model), ids, temperature, CHUNK_BYTES, vocabulary)

    def _states(self, model: PreTrainedModel, batch: MicroBatch) -> Tensor:
        """(N, H) the last hidden states that predict the completion tokens."""
        shared = (
            {}
            if batch.visible is None
            else {"attention_mask": batch.visible.to(model.dtype), "position_ids": batch.positions}
        )
        states = model.base_model(input_ids=batch.input_ids, use_cache=False, **shared).last_hidden_state
        return states.flatten(0, 1)[batch.sources]


def output_head(model: PreTrainedModel) -> Callable[[Tensor], Tensor]:
    """Return the function from last hidden states (n, H) to logits (n, V), with the scalings some families add."""
    config = model.config.get_text_config()
    layer = model.get_output_embeddings()
    scale = getattr(config, "logit_scale", None) or 1 / (getattr(config, "logits_scaling", None) or 1)
    cap = getattr(config, "final_logit_softcapping", None)

    def head(states: Tensor) -> Tensor:
        logits = layer(states)
        if scale != 1:
            logits = logits * scale
        return torch.tanh(logits / cap) * cap if cap else logits

    return head


@torch.no_grad()
def _check_head(model: PreTrainedModel) -> None:
    """Completion tokens' logits are computed from hidden states: make sure that the model does the same."""
    ids = torch.arange(3, device=next(model.parameters()).device).unsqueeze(0)
    own = model(input_ids=ids, use_cache=False).logits
    ours = output_head(model)(model.base_model(input_ids=ids, use_cache=False).last_hidden_state)
    if (own - ours).abs().max() > TOLERANCE * own.abs().max():
        raise ValueError(
            f"{type(model).__name__} cannot be trained: its logits are not those of its output layer, "
            "so it changes them in a way the learner does not know"
        )


def _prepared(model: PreTrainedModel, gradient_checkpointing: bool) -> PreTrainedModel:
    model.float().eval().requires_grad_(True)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name, value in vars(module).items():
            if "drop" in name and isinstance(value, float):
                setattr(module, name, 0.0)
        if isinstance(module, nn.Embedding):
            # torch gives the padding id's row no gradient, and in many checkpoints that id also ends a chat's turn.
            module.padding_idx = None
    if gradient_checkpointing:
        model.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
        model.train()  # transformers checkpoints in training mode only
    return model
