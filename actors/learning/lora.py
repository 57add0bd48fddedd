"""Low-rank adapters through peft, which is an optional package."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from actors.learning.settings import LoraSettings

ADAPTER = "default"


def add_lora(model: PreTrainedModel, settings: LoraSettings) -> Any:
    """Put adapters into all linear layers of `model` but the output layer, in place, and freeze the rest.

    Returns peft's wrapper, whose `disable_adapter()` restores the model without them for a while.
    Raises ImportError where peft is not installed.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise ImportError(
            "LoRA needs the package peft: run `pip install peft`, or leave the lora settings out"
        ) from error
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=0.0,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    return get_peft_model(model, config, adapter_name=ADAPTER)


def merged_weights(model: PreTrainedModel) -> Iterator[tuple[str, Tensor]]:
    """The weights of `model` by the names of the plain model, with each adapter's update added to its layer's."""
    modules = dict(model.named_modules())
    for name, weight in model.named_parameters():
        layer = name.rpartition(".base_layer.")[0]
        if layer and name.endswith(".weight"):
            adapted: Any = modules[layer]
            yield f"{layer}.weight", weight + adapted.get_delta_weight(ADAPTER)
        elif layer:
            yield name.replace(".base_layer.", "."), weight
        elif ".lora_" not in name:
            yield name, weight
