"""How near to the machine's limits an engine comes: what must be read and multiplied, and how fast that could be.

A step can take no less than its bytes over the memory's bandwidth, and no less than its operations over the
processor's rate (the roofline of Williams, Waterman and Patterson, 2009). Bytes are the weights, once, and the keys and
values of every context; operations are two a weight for each token, and four a context token for each pair of query
head and component.
"""

from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from actors.engine.machine import Machine


@dataclass(frozen=True, slots=True)
class Costs:
    """What a model costs, in bytes and in floating-point operations."""

    weight_bytes: int
    """Read once a step: all but the rows of the embedding that are only looked up."""
    kv_bytes: int
    """Keys and values of one token, all layers."""
    token_flop: int
    """A token through all layers, attention apart."""
    logit_flop: int
    """The logits of one row."""
    context_flop: int
    """Attention of one token to one token of its context, all layers."""


@dataclass(slots=True)
class Work:
    """What a step, or many, did."""

    tokens: int = 0
    logit_rows: int = 0
    kv_tokens: int = 0
    """Tokens of context whose keys and values were read: each sequence's once, however many of its tokens ran."""
    attention_pairs: int = 0
    """(token, token of its context)."""


class Limits:
    """The least time that work can take for a model on a machine."""

    def __init__(self, machine: Machine, costs: Costs) -> None:
        self.machine = machine
        self.costs = costs

    def seconds(self, work: Work) -> float:
        """Return the physical lower bound of one step."""
        costs = self.costs
        moved = costs.weight_bytes + costs.kv_bytes * work.kv_tokens
        multiplied = costs.token_flop * work.tokens + costs.logit_flop * work.logit_rows
        multiplied += costs.context_flop * work.attention_pairs
        return max(moved / self.machine.bytes_per_s, multiplied / self.machine.flop_per_s)


def costs_of(model: PreTrainedModel, kv_bytes: int, context_flop: int) -> Costs:
    """Return what `model` costs. Experts of a mixture count as if all were used."""
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    assert isinstance(embedding, torch.nn.Embedding)
    everything = {id(parameter): parameter for parameter in model.parameters()}
    looked_up = everything.pop(id(embedding.weight))
    tied = head is not None and head.weight is looked_up
    head_elements = head.weight.numel() if head is not None else 0
    elements = sum(parameter.numel() for parameter in everything.values()) + (looked_up.numel() if tied else 0)
    return Costs(
        weight_bytes=elements * looked_up.element_size(),
        kv_bytes=kv_bytes,
        token_flop=2 * (elements - head_elements),
        logit_flop=2 * head_elements,
        context_flop=context_flop,
    )
