"""Any architecture: transformers' own modules, with their attention taken over."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from actors.engine.continuous.attention.interface import receiving
from actors.engine.continuous.attention.layer import Attention
from actors.engine.continuous.step import Step
from actors.models.update import copy_weights


class AttachedDecoder:
    """Runs steps through a model that uses our attention interface."""

    name = "transformers"

    def __init__(self, model: PreTrainedModel, attention: Attention) -> None:
        self._model = model
        self._attention = attention
        self._keeps_logits = "logits_to_keep" in inspect.signature(model.forward).parameters

    @torch.inference_mode()
    def forward(self, step: Step) -> Tensor:
        """(S, V) logits of the wanted rows."""

        def attend(module: Any, query: Tensor, key: Tensor, value: Tensor, given: dict[str, Any]) -> Tensor:
            query, key, value = (each[0].transpose(0, 1) for each in (query, key, value))
            return self._attention.attend(module.layer_idx, query, key, value, step, given.get("s_aux")).unsqueeze(0)

        arguments: dict[str, Any] = {"logits_to_keep": step.wanted} if self._keeps_logits else {}
        with receiving(attend):
            output = self._model(
                step.ids.unsqueeze(0),
                attention_mask=torch.ones_like(step.ids).unsqueeze(0),  # or some families warn of padding
                position_ids=step.positions.unsqueeze(0),
                use_cache=False,
                return_dict=True,
                **arguments,
            )
        logits = output.logits[0]
        return logits if self._keeps_logits else logits[step.wanted]

    def update(self, weights: Mapping[str, Tensor]) -> None:
        copy_weights(self._model, weights)
