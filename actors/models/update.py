"""Replacing a model's weights without replacing the model."""

from collections.abc import Mapping

import torch
from torch import Tensor
from transformers import PreTrainedModel


def check_shapes(shapes: Mapping[str, tuple[int, ...]], weights: Mapping[str, Tensor]) -> None:
    """Raise ValueError for one of `weights` whose name is not among `shapes`, or whose shape differs."""
    unknown = [name for name in weights if name not in shapes]
    if unknown:
        raise ValueError(f"the model has no weights named {', '.join(sorted(unknown)[:5])}")
    for name, weight in weights.items():
        if tuple(weight.shape) != shapes[name]:
            raise ValueError(f"{name} has shape {tuple(weight.shape)}, the model's is {shapes[name]}")


@torch.no_grad()
def copy_weights(model: PreTrainedModel, weights: Mapping[str, Tensor]) -> None:
    """Copy `weights` in place over those of the same names, whatever their type. Tied weights stay tied.

    Raises ValueError as `check_shapes` does, before anything is changed.
    """
    own = {**dict(model.named_buffers()), **dict(model.named_parameters(remove_duplicate=False))}
    check_shapes({name: tuple(parameter.shape) for name, parameter in own.items()}, weights)
    for name, weight in weights.items():
        own[name].copy_(weight)
