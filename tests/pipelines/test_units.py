"""Cutting requests into units."""

from actors.engine.requests import GenerationRequest
from pipelines.evaluate import make_units


def requests(*lengths: int) -> list[GenerationRequest]:
    return [GenerationRequest(f"p{n}", 0, tuple(range(length))) for n, length in enumerate(lengths)]


def test_units_hold_each_request_once_longest_first_and_no_more_than_a_batch() -> None:
    work = requests(*range(1, 31))
    units = make_units(work, batch_size=8, workers=2)
    flat = [request for unit in units for request in unit.items]
    assert sorted(flat, key=lambda request: len(request.prompt_ids)) == work
    assert [len(request.prompt_ids) for request in flat] == list(range(30, 0, -1))
    assert all(len(unit.items) <= 8 for unit in units)
    assert len({unit.id for unit in units}) == len(units)


def test_little_work_is_spread_over_all_workers() -> None:
    assert [len(unit.items) for unit in make_units(requests(*[5] * 6), batch_size=64, workers=4)] == [2, 2, 2]
