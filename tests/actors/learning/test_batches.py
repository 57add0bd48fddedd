import pytest
import torch

from actors.learning.batches import Row, assemble, cut, line_length, lines_of, padding_share

ROWS = [Row((5, 6), (7,) * length) for length in (1, 9, 4, 4, 30, 2)] + [Row((5,), (6,)), Row((8, 8, 8), ())]
CPU = torch.device("cpu")


@pytest.mark.parametrize("shared", [0, 10, 1000])
@pytest.mark.parametrize("budget", [1, 12, 13, 40, 1000])
def test_every_row_is_computed_once_and_no_micro_batch_exceeds_the_budget_unless_it_is_one_row(
    budget: int, shared: int
) -> None:
    cuts = cut(ROWS, budget, shared)
    assert sorted(index for lines in cuts for line in lines for index in line) == list(range(len(ROWS)))
    for lines in cuts:
        longest = max(line_length(ROWS, line) for line in lines)
        assert len(lines) * longest <= budget or [len(line) for line in lines] == [1]


def test_only_rows_of_one_prompt_share_a_line_and_only_up_to_its_limit() -> None:
    assert lines_of(ROWS, 0) == [(index,) for index in range(len(ROWS))]
    assert lines_of(ROWS, 20) == [(0, 1, 2, 3), (4,), (5,), (6,), (7,)]
    assert lines_of(ROWS, 1000) == [(0, 1, 2, 3, 4, 5), (6,), (7,)]


def test_lines_are_sorted_by_length_so_that_little_is_padding() -> None:
    lengths = [line_length(ROWS, line) for lines in cut(ROWS, 20, 0) for line in lines]
    assert lengths == sorted(lengths, reverse=True)
    assert padding_share(ROWS, cut(ROWS, 1, 0)) == 0
    assert padding_share(ROWS, cut(ROWS, 1000, 0)) == pytest.approx(1 - sum(map(len, ROWS)) / (8 * 32))


def test_completion_tokens_are_found_by_length_even_where_they_look_like_padding() -> None:
    rows = [Row((0, 2), (2, 0, 2)), Row((2, 0, 0), (0,)), Row((4,), ())]
    batch = assemble(rows, [(0,), (1,), (2,)], CPU)
    assert batch.targets.tolist() == [2, 0, 2, 0]
    assert batch.sequence.tolist() == [0, 0, 0, 1]
    predicted_by = [divmod(place, batch.input_ids.shape[1]) for place in batch.sources.tolist()]
    assert predicted_by == [(0, 1), (0, 2), (0, 3), (1, 2)]
    assert batch.visible is None


def test_a_completion_on_a_shared_line_sees_the_prompt_and_itself() -> None:
    rows = [Row((5, 6), (7, 8)), Row((5, 6), (9,))]
    batch = assemble(rows, [(0, 1)], CPU)
    assert batch.input_ids.tolist() == [[5, 6, 7, 8, 9]]
    assert batch.positions.tolist() == [[0, 1, 2, 3, 2]]
    assert batch.sources.tolist() == [1, 2, 1], "both first tokens follow the prompt's last"
    assert batch.sequence.tolist() == [0, 0, 1]
    assert batch.visible is not None
    assert (batch.visible[0, 0] == 0).int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 1, 0, 0, 1],
    ]
