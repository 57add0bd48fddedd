import pytest
import torch

from actors.learning.batches import Row, assemble, cut, padding_share

ROWS = [Row((5, 6), (7,) * length) for length in (1, 9, 4, 4, 30, 2)]
CPU = torch.device("cpu")


@pytest.mark.parametrize("budget", [1, 12, 13, 40, 1000])
def test_every_row_is_in_one_micro_batch_and_none_exceeds_the_budget_unless_it_stands_alone(budget: int) -> None:
    cuts = cut(ROWS, budget)
    assert sorted(index for chosen in cuts for index in chosen) == list(range(len(ROWS)))
    for chosen in cuts:
        longest = max(len(ROWS[index]) for index in chosen)
        assert len(chosen) == 1 or len(chosen) * longest <= budget


def test_rows_are_sorted_by_length_so_that_little_is_padding() -> None:
    lengths = [len(ROWS[index]) for chosen in cut(ROWS, 20) for index in chosen]
    assert lengths == sorted(lengths, reverse=True)
    assert padding_share(ROWS, cut(ROWS, 1)) == 0
    assert padding_share(ROWS, cut(ROWS, 1000)) == pytest.approx(1 - sum(map(len, ROWS)) / (6 * 32))


def test_completion_tokens_are_found_by_length_even_where_they_look_like_padding() -> None:
    rows = [Row((0, 2), (2, 0, 2)), Row((2, 0, 0), (0,)), Row((4,), ())]
    batch = assemble(rows, [0, 1, 2], CPU)
    assert batch.targets.tolist() == [2, 0, 2, 0]
    assert batch.sequence.tolist() == [0, 0, 0, 1]
    predicted_by = [divmod(place, batch.input_ids.shape[1]) for place in batch.sources.tolist()]
    assert predicted_by == [(0, 1), (0, 2), (0, 3), (1, 2)]
