"""Replacing a model's weights without replacing the model."""

from collections.abc import Mapping

import torch
from torch import Tensor
from transformers import PreTrainedModel


def check_weights(model: PreTrainedModel, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the model's own parameters and buffers that `weights` names, by name.

    Raises ValueError for a name that the model does not have or a shape that differs.
    """
    own = {**dict(model.named_buffers()), **dict(model.named_parameters(remove_duplicate=False))}
    unknown = [name for name in weights if name not in own]
    if unknown:
        raise ValueError(f"the model has no weights named {', '.join(sorted(unknown)[:5])}")
    for name, weight in weights.items():
        if weight.shape != own[name].shape:
            raise ValueError(f"{name} has shape {tuple(weight.shape)}, the model's is {tuple(own[name].shape)}")
    return {name: own[name] for name in weights}


@torch.no_grad()
def copy_weights(model: PreTrainedModel, weights: Mapping[str, Tensor]) -> None:
    """Copy `weights` in place over those of the same names, whatever their type. Tied weights stay tied.

    Raises ValueError as `check_weights` does, before anything is changed.
    """
    for name, parameter in check_weights(model, weights).items():
        parameter.copy_(weights[name])
