"""The Llama family in as few operations as it takes: fused projections, fused norms, logits only where wanted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from actors.engine.continuous.decoder.linear import FusedLinear
from actors.engine.continuous.decoder.operations import Operations
from actors.engine.continuous.step import Step
from actors.engine.native.matmul import TileProducts
from actors.models.update import check_shapes

FAMILIES = {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}
"""Pre-norm layers of rotary attention and a gated feed-forward part, and nothing else."""


@dataclass(frozen=True, slots=True)
class _Layer:
    input_norm: Tensor
    qkv: FusedLinear
    head_norms: tuple[Tensor, Tensor] | None
    out: FusedLinear
    post_norm: Tensor
    gate_up: FusedLinear
    down: FusedLinear


def is_lean(model: PreTrainedModel) -> bool:
    """Whether `LeanDecoder` computes what this model does."""
    config = model.config
    return type(model).__name__ in FAMILIES and config.hidden_act == "silu" and _rotates_whole_heads(config)


class LeanDecoder:
    """Takes the weights out of `model`, which is of no use afterwards."""

    name = "lean"

    def __init__(self, model: PreTrainedModel, operations: Operations, tiles: TileProducts | None = None) -> None:
        self._operations = operations
        self._tiles = tiles
        inner: Any = model.model
        self._rotary = inner.rotary_emb
        self._eps = float(model.config.rms_norm_eps)
        head: Any = model.get_output_embeddings()
        self._tied = head.weight.data_ptr() == inner.embed_tokens.weight.data_ptr()
        self._embedding = _own(inner.embed_tokens.weight)
        self._norms: dict[str, Tensor] = {"model.norm.weight": _own(inner.norm.weight)}
        self._layers = [self._take(f"model.layers.{index}", layer) for index, layer in enumerate(inner.layers)]
        self._final_norm = self._norms["model.norm.weight"]
        self._head = FusedLinear(["lm_head"], [head], tiles, keep=self._tied)

    @torch.inference_mode()
    def forward(self, step: Step) -> Tensor:
        """(S, V) logits of the wanted rows."""
        operations, eps = self._operations, self._eps
        hidden = functional.embedding(step.ids, self._embedding)
        cosine, sine = self._rotary(hidden, position_ids=step.positions.unsqueeze(0))
        rotation = (cosine[0].contiguous(), sine[0].contiguous())
        x: Tensor | None = None
        for index, layer in enumerate(self._layers):
            normed = operations.add_norm(x, hidden, layer.input_norm, eps)
            attended = operations.attend(index, layer.qkv(normed), rotation, layer.head_norms, eps, step)
            if index == len(self._layers) - 1:  # beyond the last keys and values, only wanted rows matter
                attended, hidden = attended[step.wanted], hidden[step.wanted]
                if not len(hidden):
                    return hidden
            normed = operations.add_norm(layer.out(attended), hidden, layer.post_norm, eps)
            x = layer.down(operations.silu_mul(layer.gate_up(normed)))
        return self._head(operations.add_norm(x, hidden, self._final_norm, eps))

    def update(self, weights: Mapping[str, Tensor]) -> None:
        shapes: dict[str, tuple[int, ...]] = {name: tuple(norm.shape) for name, norm in self._norms.items()}
        shapes["model.embed_tokens.weight"] = tuple(self._embedding.shape)
        for linear in self._linears():
            shapes |= linear.shapes()
        check_shapes(shapes, weights)
        weights = dict(weights)
        if self._tied:
            for name, other in (_TIED, _TIED[::-1]):
                if name in weights:
                    weights.setdefault(other, weights[name])
        with torch.no_grad():
            for name, own in {**self._norms, "model.embed_tokens.weight": self._embedding}.items():
                if name in weights:
                    own.copy_(weights[name])
        for linear in self._linears():
            linear.update(weights)

    def _linears(self) -> list[FusedLinear]:
        parts = [[layer.qkv, layer.out, layer.gate_up, layer.down] for layer in self._layers]
        return [*(linear for part in parts for linear in part), self._head]

    def _take(self, name: str, layer: Any) -> _Layer:
        attention, feed = layer.self_attn, layer.mlp
        norms = {f"{name}.{part}.weight": _own(getattr(layer, part).weight) for part in _NORMS}
        heads = {
            f"{name}.self_attn.{part}.weight": _own(getattr(attention, part).weight)
            for part in ("q_norm", "k_norm")
            if hasattr(attention, part)
        }
        self._norms |= norms | heads
        input_norm, post_norm = norms.values()
        q_norm, k_norm = (heads.get(f"{name}.self_attn.{part}.weight") for part in ("q_norm", "k_norm"))

        def fused(module: Any, path: str, *parts: str) -> FusedLinear:
            names = [f"{name}.{path}.{part}" for part in parts]
            return FusedLinear(names, [getattr(module, part) for part in parts], self._tiles)

        return _Layer(
            input_norm=input_norm,
            qkv=fused(attention, "self_attn", "q_proj", "k_proj", "v_proj"),
            head_norms=(q_norm, k_norm) if q_norm is not None and k_norm is not None else None,
            out=fused(attention, "self_attn", "o_proj"),
            post_norm=post_norm,
            gate_up=fused(feed, "mlp", "gate_proj", "up_proj"),
            down=fused(feed, "mlp", "down_proj"),
        )


_NORMS = ("input_layernorm", "post_attention_layernorm")
_TIED = ("model.embed_tokens.weight", "lm_head.weight")


def _own(weight: Tensor) -> Tensor:
    """On a CPU a copy: the weight is a window on the checkpoint's file, and one window keeps all of it in memory."""
    if weight.device.type == "cpu":
        weight.data = weight.detach().clone()
    return weight.detach()


def _rotates_whole_heads(config: Any) -> bool:
    parameters = getattr(config, "rope_parameters", None) or {}
    return float(parameters.get("partial_rotary_factor", 1.0)) == 1.0
