import random

import pytest
import torch

from actors.engine.padded.cache import CHUNK, GrowingCache, GrowingLayer, swap_order
from tests.actors.engine.tiny import CONFIGS


def filled(rows: int, columns: int) -> tuple[GrowingLayer, torch.Tensor]:
    layer = GrowingLayer()
    states = torch.randn(rows, 2, columns, 4)
    layer.update(states, -states)
    return layer, states


def test_updates_append_as_concatenation_would_over_many_growths() -> None:
    layer, expected = filled(3, 5)
    for _ in range(3 * CHUNK):
        new = torch.randn(3, 2, 1, 4)
        expected = torch.cat([expected, new], dim=2)
        keys, values = layer.update(new, -new)
        assert keys.shape == expected.shape
    assert keys.equal(expected)
    assert values.equal(-expected)
    assert layer.get_seq_length() == expected.shape[2]


def test_a_token_is_written_in_place() -> None:
    layer, states = filled(2, 5)
    address = layer._look()[0].data_ptr()
    for _ in range(CHUNK):
        keys, _ = layer.update(states[:, :, :1], states[:, :, :1])
    assert keys.data_ptr() == address


def test_rows_and_columns_that_leave_are_gone_and_the_rest_is_untouched_for_200_steps() -> None:
    generator = random.Random(0)
    layer, expected = filled(40, 30)
    for _ in range(200):
        new = torch.randn(len(expected), 2, 1, 4)
        expected = torch.cat([expected, new], dim=2)
        keys, values = layer.update(new, -new)
        assert keys.equal(expected)
        assert values.equal(-expected)
        finished = [generator.random() < 0.03 for _ in range(len(expected))]
        if any(finished) and not all(finished):
            order, moves = swap_order(finished)
            columns = expected.shape[2] - generator.randint(0, 2)
            layer.retain(moves, len(order), columns)
            expected = expected[order][:, :, -columns:]
    assert len(expected) < 20


@pytest.mark.parametrize("seed", range(20))
def test_swap_order_keeps_the_living_and_copies_no_more_than_left(seed: int) -> None:
    generator = random.Random(seed)
    finished = [generator.random() < 0.5 for _ in range(generator.randint(1, 12))]
    order, moves = swap_order(finished)
    assert sorted(order) == [row for row, gone in enumerate(finished) if not gone]
    assert len(moves) <= sum(finished)
    rows = list(range(len(finished)))
    for source, target in moves:
        rows[target] = rows[source]
    assert rows[: len(order)] == order


def test_stacked_caches_are_aligned_at_their_ends_and_filled_up_with_zeros() -> None:
    config = CONFIGS["llama"]()
    parts, states = [], []
    for rows, columns in ((2, 9), (1, 4)):
        part = GrowingCache(config)
        states.append(torch.randn(rows, 2, columns, 4))
        for layer in range(2):
            part.update(states[-1], -states[-1], layer)
        parts.append(part)
    joint = GrowingCache(config)
    joint.stack(parts)
    new = torch.randn(3, 2, 1, 4)
    keys, values = joint.update(new, -new, 1)
    expected = torch.cat([states[0], torch.cat([torch.zeros(1, 2, 5, 4), states[1]], dim=2)])
    assert keys.equal(torch.cat([expected, new], dim=2))
    assert values.equal(-keys)


def test_space_not_yet_written_is_never_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = torch.Tensor.new_empty
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda self, *args, **kw: empty(self, *args, **kw).fill_(torch.nan))
    layer, states = filled(3, 7)
    for _ in range(2 * CHUNK):
        keys, values = layer.update(states[:, :, :1], states[:, :, :1])
    joint = GrowingLayer()
    joint.stack([layer, filled(1, 3)[0]])
    for tensor in (keys, values, *joint._look()):
        assert tensor.isfinite().all()


@pytest.mark.parametrize(("architecture", "plain"), [("llama", True), ("gpt2", True), ("gemma3_window_8", False)])
def test_only_caches_of_plain_layers_drop_columns(architecture: str, plain: bool) -> None:
    cache = GrowingCache(CONFIGS[architecture]())
    assert cache.is_plain == plain
    states = torch.zeros(2, 2, 12, 8)
    for layer in range(2):
        cache.update(states, states, layer)
    if not plain:
        with pytest.raises(ValueError, match="sliding-window"):
            cache.retain([0], [], 11)
    cache.retain([1], [(1, 0)], 12)
    assert all(len(layer.keys) == 1 for layer in cache.layers)
