"""The largest setting that fits is found whatever memory grows like, with the next one seen to fail."""

from collections.abc import Callable

import pytest

from pipelines.bench.memory import Probe, largest_that_fits, sizes

LIMIT = 10_000


def search(taken: Callable[[int], float], grid: list[int]) -> list[Probe]:
    def probe(size: int) -> Probe:
        needed = round(taken(size))
        return Probe(size, needed <= LIMIT, None if needed <= LIMIT else "no memory", private=min(needed, LIMIT))

    return largest_that_fits(grid, probe, LIMIT)


@pytest.mark.parametrize(
    "taken",
    [lambda size: 500 + 40 * size, lambda size: 500 + size**2, lambda size: 4000 + 100 * size**0.5, lambda size: 9999],
    ids=["line", "square", "root", "constant"],
)
def test_the_largest_that_fits_and_the_next_that_fails_are_both_run(taken: Callable[[int], float]) -> None:
    grid = sizes(1, 20_000)
    probes = search(taken, grid)
    known = {probe.size: probe.fits for probe in probes}
    largest = max(size for size in grid if taken(size) <= LIMIT)
    assert known[largest]
    if largest != grid[-1]:
        assert not known[grid[grid.index(largest) + 1]]
    assert len(probes) <= 32


def test_memory_that_grows_in_a_line_takes_few_runs() -> None:
    assert len(search(lambda size: 500 + 40 * size, sizes(1, None))) <= 4


def test_where_nothing_fits_the_smallest_is_what_was_run() -> None:
    (only,) = search(lambda size: 2 * LIMIT, sizes(1, 64))
    assert only.size == 1 and not only.fits


def test_sizes_grow_by_a_third_or_a_half_up_to_the_most() -> None:
    assert sizes(1, 20) == [1, 2, 3, 4, 6, 8, 12, 16]
    assert sizes(128, 600) == [128, 192, 256, 384, 512]
    assert sizes(128, 100) == [128]
