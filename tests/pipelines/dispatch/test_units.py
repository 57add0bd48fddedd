"""Cutting requests into units, and how many of them a generator holds."""

from collections import Counter

import pytest

from actors.engine.requests import GenerationRequest, SamplingParams
from pipelines.dispatch.units import make_units, plan_units


def requests(*lengths: int, samples: int = 1) -> list[GenerationRequest]:
    return [
        GenerationRequest(f"p{n}", sample, tuple(range(length)))
        for sample in range(samples)
        for n, length in enumerate(lengths)
    ]


def test_units_hold_each_request_once_longest_first_and_no_more_than_their_size() -> None:
    work = requests(*range(1, 31))
    units = make_units(work, 4, SamplingParams())
    flat = [request for unit in units for request in unit.items]
    assert sorted(flat, key=lambda request: len(request.prompt_ids)) == work
    assert [len(request.prompt_ids) for request in flat] == list(range(30, 0, -1))
    assert [len(unit.items) for unit in units] == [4] * 7 + [2]
    assert len({unit.id for unit in units}) == len(units)


def test_samples_of_a_problem_stay_together_where_they_fit() -> None:
    units = make_units(requests(*[5] * 7, samples=3), 4, SamplingParams())
    assert [len(unit.items) for unit in units] == [3] * 7
    assert all(len({request.problem_id for request in unit.items}) == 1 for unit in units)


def test_samples_that_do_not_fit_into_one_unit_follow_each_other() -> None:
    units = make_units(requests(9, 5, 5, samples=6), 4, SamplingParams())
    flat = [request.key for unit in units for request in unit.items]
    assert flat == [(f"p{n}", sample) for n in range(3) for sample in range(6)]
    assert all(len(unit.items) <= 4 for unit in units)


@pytest.mark.parametrize("batch_size", [1, 2, 5, 16, 31, 32, 47, 64, 256, 1000])
@pytest.mark.parametrize(("count", "workers"), [(1, 1), (3, 4), (40, 2), (500, 1), (500, 8), (20_000, 3)])
def test_what_is_worked_on_at_once_fills_the_batch_and_more_is_at_hand(
    batch_size: int, count: int, workers: int
) -> None:
    plan = plan_units(batch_size, count, workers)
    assert plan.size * plan.concurrency >= min(batch_size, count)
    assert plan.size * (plan.concurrency - 1) < batch_size
    assert plan.window == 3 * plan.concurrency
    assert len(make_units(requests(*[5] * count), plan.size, SamplingParams())) >= min(count, workers)


def test_units_are_a_small_part_of_a_batch_and_smaller_in_a_small_run() -> None:
    sizes = Counter({batch_size: plan_units(batch_size, 100_000, 1).size for batch_size in (8, 16, 32, 64, 512)})
    assert sizes == {8: 1, 16: 1, 32: 2, 64: 4, 512: 4}
    assert [plan_units(64, 500, workers).size for workers in (1, 2, 4)] == [4, 3, 1]


@pytest.mark.parametrize("batch_size", [8, 16, 32, 64, 256])
@pytest.mark.parametrize("workers", [1, 4])
def test_a_group_that_fits_into_a_batch_is_one_unit(batch_size: int, workers: int) -> None:
    problems, group = 500, 8
    plan = plan_units(batch_size, problems * group, workers, group)
    units = make_units(requests(*[5] * problems, samples=group), plan.size, SamplingParams())
    assert [len({request.problem_id for request in unit.items}) for unit in units] == [1] * problems
    assert plan.concurrency * group == batch_size
    assert plan.window == 8 * plan.concurrency


def test_a_small_group_shares_its_unit_with_others() -> None:
    assert plan_units(64, 4000, 1, group=2) == plan_units(64, 4000, 1)


def test_groups_are_cut_where_they_exceed_a_batch_or_are_too_few_for_the_workers() -> None:
    assert plan_units(8, 6400, 1, group=64).size == plan_units(8, 6400, 1).size
    assert plan_units(64, 3 * 64, 8, group=64).size == 1
    assert plan_units(64, 3 * 64, 1, group=64).size == 64
