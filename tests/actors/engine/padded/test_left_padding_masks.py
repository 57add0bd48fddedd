import pytest
import torch
from torch import Tensor

from actors.engine.padded.cache import GrowingCache
from actors.engine.padded.masks import DecodeMasks, MaskArgument, prefill_mask
from tests.actors.engine.tiny import tiny_model

PADDING = [0, 3, 9]
COLUMNS = 10
FOUR_DIMENSIONAL = ["llama", "qwen2", "mistral_window_8", "gemma3_window_8", "gpt2", "opt", "gpt_neox"]


def visible(mask: MaskArgument) -> list[Tensor]:
    """Every mask of the argument as booleans."""
    masks = list(mask.values()) if isinstance(mask, dict) else [mask]
    return [one if one.dtype == torch.bool else one == 0 for one in masks if one is not None]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("architecture", FOUR_DIMENSIONAL)
def test_no_query_of_a_prefill_is_without_a_key(architecture: str, attention: str) -> None:
    model = tiny_model(architecture, attention)
    masks = visible(prefill_mask(model, PADDING, COLUMNS, GrowingCache(model.config)))
    assert masks
    for mask in masks:
        assert mask.shape == (3, 1, COLUMNS, COLUMNS)
        assert mask.any(dim=-1).all()


@pytest.mark.parametrize("window", [None, 8])
def test_prefill_mask_is_causal_without_padding_and_within_the_window(window: int | None) -> None:
    model = tiny_model("mistral_window_8" if window else "llama")
    (mask,) = visible(prefill_mask(model, PADDING, COLUMNS, GrowingCache(model.config)))
    for row, padding in enumerate(PADDING):
        for query in range(COLUMNS):
            nearest = [k for k in range(padding, query + 1) if window is None or k > query - window]
            expected = nearest if query >= padding else [query]
            assert mask[row, 0, query].nonzero().flatten().tolist() == expected


def test_prompts_of_one_length_need_no_mask() -> None:
    model = tiny_model("llama")
    assert prefill_mask(model, [0, 0], COLUMNS, GrowingCache(model.config)) is None


@pytest.mark.parametrize("architecture", ["bloom", "falcon"])
def test_models_that_derive_masks_get_the_padding_alone(architecture: str) -> None:
    model = tiny_model(architecture)
    mask = prefill_mask(model, PADDING, COLUMNS, GrowingCache(model.config))
    assert isinstance(mask, Tensor)
    assert mask.tolist() == [[0] * padding + [1] * (COLUMNS - padding) for padding in PADDING]


def test_decode_mask_hides_the_padding_and_follows_rows_and_columns() -> None:
    model = tiny_model("llama")
    cache = GrowingCache(model.config)
    states = torch.zeros(3, 2, COLUMNS, 8)
    for layer in range(2):
        cache.update(states, states, layer)
    masks = DecodeMasks(model, PADDING, COLUMNS, 64)
    (mask,) = visible(masks.next(cache))
    assert mask[:, 0, 0].long().argmax(-1).tolist() == PADDING
    assert mask.shape[-1] == COLUMNS + 1

    for layer in range(2):
        cache.update(states[:, :, :1], states[:, :, :1], layer)
    columns = masks.retain([2, 1], drop_columns=True)
    assert columns == COLUMNS + 1 - 3
    cache.retain([2, 1], [(2, 0)], columns)
    (mask,) = visible(masks.next(cache))
    assert mask[:, 0, 0].long().argmax(-1).tolist() == [6, 0]
    assert mask.shape == (2, 1, 1, columns + 1)
