"""Making a continuous engine for a model: what its layers need, which kernels do it, how large the pool is."""

from collections.abc import Collection
from dataclasses import dataclass, field

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from actors.engine import native
from actors.engine.continuous.attention.interface import (
    KEY,
    UnsupportedModelError,
    check_interface,
    find_layers,
)
from actors.engine.continuous.attention.layer import Attention, AttentionLayer
from actors.engine.continuous.attention.loop import LoopAttention
from actors.engine.continuous.attention.native import NativeAttention
from actors.engine.continuous.attention.varlen import VarlenAttention
from actors.engine.continuous.decoder import Decoder
from actors.engine.continuous.decoder.attached import AttachedDecoder
from actors.engine.continuous.decoder.graphs import GraphDecoder
from actors.engine.continuous.decoder.lean import LeanDecoder, is_lean
from actors.engine.continuous.decoder.operations import NativeOperations, Operations, TorchOperations
from actors.engine.continuous.engine import ContinuousEngine
from actors.engine.continuous.memory import pool_tokens
from actors.engine.continuous.policy import Policy
from actors.engine.continuous.runs import BLOCK
from actors.engine.continuous.scheduler import Admission, Scheduler
from actors.engine.continuous.selfcheck import check_decoder, check_tokens, plain_logits
from actors.engine.limits import Costs, Limits, Machine, costs_of
from actors.engine.progress import Progress
from actors.engine.rows import RowKeeper
from actors.host import give_back_freed_memory
from actors.models import checkpoint

CPU_TOKEN_BUDGET = 512
"""Where a CPU's matrix products are at full speed: more tokens a step only make it longer."""

GPU_TOKEN_BUDGET = 4096

LONGEST_PLANNED = 8192
"""Tokens a row for which an automatic pool is sized, where the model's context is longer or has no limit."""

LEAST_TOKENS = 2 * BLOCK

EXACT_ROWS = 16
"""With at least so many rows, a CPU's float32 matrix products give each row the same bits in any company."""


@dataclass(frozen=True, slots=True)
class ContinuousOptions:
    """How to batch. None leaves the choice to the machine."""

    batch_size: int
    token_budget: int | None = None
    kv_cache_tokens: int | None = None
    policy: Policy = field(default_factory=Policy)
    admission: Admission = "optimistic"
    kernels: bool = True
    """Whether the native kernels may be used."""
    lean: bool = True
    """Whether a model of a known family may run through fused operations instead of transformers' modules."""
    graphs: bool = True
    """Whether decode steps on a GPU may be recorded."""
    machine: Machine | None = None
    """What the device can do, to hold the engine's steps against."""

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {self.batch_size}")
        if self.token_budget is not None and self.token_budget < 1:
            raise ValueError(f"token_budget must be at least 1, got {self.token_budget}")
        if self.kv_cache_tokens is not None and self.kv_cache_tokens < LEAST_TOKENS:
            raise ValueError(f"kv_cache_tokens must be at least {LEAST_TOKENS}, got {self.kv_cache_tokens}")


def build_continuous_engine(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    options: ContinuousOptions,
    *,
    eos_token_ids: Collection[int] | None = None,
    context_length: int | None = None,
) -> ContinuousEngine:
    """Return an engine that takes over `model`, whose attention from now on belongs to it.

    Raises UnsupportedModelError, and leaves the model as it was, for one that this engine would falsify; ValueError for
    one that only its fused decoder falsifies.
    """
    rope = checkpoint.batch_dependent_rope(model.config)
    if rope:
        raise UnsupportedModelError(f"rope type {rope!r} chooses frequencies by the longest row of a batch")
    check_interface(model)
    before = model.config._attn_implementation
    tokens, dtype = check_tokens(tokenizer), model.dtype
    expected = plain_logits(model, tokens)
    try:
        model.set_attn_implementation(KEY)
        layers = find_layers(model)
        on_gpu = model.device.type == "cuda"
        least_rows = EXACT_ROWS if not on_gpu and dtype == torch.float32 else 1
        costs = _costs(model, layers)
        attention, size = _attention(model, layers, options, context_length)
        check_decoder(AttachedDecoder(model, attention), tokens, expected, dtype, least_rows)
    except UnsupportedModelError:
        model.set_attn_implementation(before)
        raise
    keeper = RowKeeper(model, tokenizer, Progress(), eos_token_ids, context_length)
    decoder = _decoder(model, attention, layers, options)
    give_back_freed_memory()
    try:
        check_decoder(decoder, tokens, expected, dtype, least_rows)
    except UnsupportedModelError as error:  # too late for anything else: the decoder has taken the weights
        raise ValueError(
            f"the fused decoder falsifies this model ({error}): set generation.engine to padded"
        ) from error
    budget = options.token_budget or (GPU_TOKEN_BUDGET if on_gpu else CPU_TOKEN_BUDGET)
    scheduler = Scheduler(size, options.batch_size, budget, options.policy, options.admission, attention.share_prefixes)
    limits = Limits(options.machine, costs) if options.machine is not None else None
    return ContinuousEngine(decoder, attention, scheduler, keeper, model.device, least_rows, limits)


def _costs(model: PreTrainedModel, layers: list[AttentionLayer]) -> Costs:
    pairs = sum(2 * layer.heads * (layer.key_size + layer.value_size) for layer in layers)
    return costs_of(model, _bytes_per_token(model, layers), pairs)


def _bytes_per_token(model: PreTrainedModel, layers: list[AttentionLayer]) -> int:
    return sum(layer.bytes_per_token(model.dtype.itemsize) for layer in layers)


def _attention(
    model: PreTrainedModel, layers: list[AttentionLayer], options: ContinuousOptions, context_length: int | None
) -> tuple[Attention, int]:
    """The attention of these layers and the tokens in its pool."""
    per_token = _bytes_per_token(model, layers)
    context = context_length or checkpoint.context_length(model.config) or LONGEST_PLANNED
    planned = options.batch_size * min(context, LONGEST_PLANNED)
    tokens = options.kv_cache_tokens or pool_tokens(model.device, per_token, planned)
    tokens = max(LEAST_TOKENS, tokens // BLOCK * BLOCK)
    kernels = native.load() if options.kernels and model.device.type == "cpu" else None
    if kernels is not None and all(kernels.supports(model.dtype, layer.key_size) for layer in layers):
        return NativeAttention(kernels, layers, tokens, model.dtype), tokens
    if model.device.type == "cuda" and VarlenAttention.supports(model.dtype, layers):
        return VarlenAttention(layers, tokens, model.dtype, model.device), tokens
    return LoopAttention(layers, tokens, model.dtype, model.device), tokens


def _decoder(
    model: PreTrainedModel,
    attention: Attention,
    layers: list[AttentionLayer],
    options: ContinuousOptions,
) -> Decoder:
    decoder: Decoder = AttachedDecoder(model, attention)
    if options.lean and is_lean(model):
        tiles = attention.kernels.tiles if isinstance(attention, NativeAttention) else None
        decoder = LeanDecoder(model, _operations(model, attention, layers), tiles)
    if isinstance(attention, VarlenAttention) and options.graphs:
        return GraphDecoder(decoder, attention, options.batch_size)
    return decoder


def _operations(model: PreTrainedModel, attention: Attention, layers: list[AttentionLayer]) -> Operations:
    sizes = model.config.hidden_size, model.config.intermediate_size
    if isinstance(attention, NativeAttention) and NativeOperations.supports(*sizes, layers):
        return NativeOperations(attention, layers)
    return TorchOperations(attention, layers)
