"""How near to the machine's limits an engine comes: what must be read and multiplied, and how fast that could be.

A step can take no less than its bytes over the memory's bandwidth, and no less than its operations over the
processor's rate (the roofline of Williams, Waterman and Patterson, 2009). Bytes are the weights, once, and the keys and
values of every context; operations are two a weight for each token, and four a context token for each pair of query
head and component.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel

PROBE_BYTES = 2**28
"""Read to measure bandwidth; four times the last-level cache where that is more."""

LARGEST_PROBE = 2**31
MATRIX = 2048
GPU_MATRIX = 8192
TRIES = 5


@dataclass(frozen=True, slots=True)
class Machine:
    """What a device was measured to do."""

    bytes_per_s: float
    flop_per_s: float

    def __str__(self) -> str:
        return f"{self.bytes_per_s / 1e9:.0f} GB/s, {self.flop_per_s / 1e12:.2f} TFLOP/s"


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


def measure_machine(device: torch.device, dtype: torch.dtype) -> Machine:
    """Return the bandwidth and the rate of matrix products that `device` reaches now; a second or two."""
    size = min(LARGEST_PROBE, max(PROBE_BYTES, 4 * _last_level_cache()))
    source = torch.ones(size // 8, dtype=torch.float32, device=device)
    target = torch.ones_like(source)
    copied = 2 * source.nbytes / _fastest(lambda: target.copy_(source), device)
    read = source.nbytes / _fastest(lambda: source.sum(), device)
    side = GPU_MATRIX if device.type == "cuda" else MATRIX
    matrix = torch.ones((side, side), dtype=dtype, device=device)
    multiplied = 2 * side**3 / _fastest(lambda: matrix @ matrix, device)
    return Machine(max(copied, read), multiplied)


def _fastest(action: Callable[[], object], device: torch.device) -> float:
    best = float("inf")
    for _ in range(TRIES):
        start = time.perf_counter()
        action()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - start)
    return best


def _last_level_cache() -> int:
    """Bytes of the largest cache of the first processor, 0 where the system does not tell."""
    sizes = [path.read_text().strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    units = {"K": 2**10, "M": 2**20}
    return max((int(size[:-1]) * units[size[-1]] for size in sizes if size and size[-1] in units), default=0)
