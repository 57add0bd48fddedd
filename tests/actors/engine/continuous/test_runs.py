"""Runs tile the pool, whatever is taken and given back."""

import random

import pytest

from actors.engine.continuous.runs import BLOCK, Run, RunAllocator


def test_random_taking_growing_sharing_and_giving_back_loses_no_token() -> None:
    chance = random.Random(3)
    runs = RunAllocator(100 * BLOCK + 5)
    held: list[Run] = []
    reached = 0
    for _ in range(3000):
        act = chance.random()
        if act < 0.4:
            run = runs.allocate(chance.randint(0, 200))
            held += [run] if run is not None else []
        elif held and act < 0.6:
            runs.extend(chance.choice(held), chance.randint(1, 400))
        elif held and act < 0.7:
            held.append(runs.share(chance.choice(held)))
        elif held:
            runs.release(held.pop(chance.randrange(len(held))))
        runs.check(held)
        reached = max([reached, *(run.start + run.size for run in held)])
        assert runs.reached == reached
    for run in held:
        runs.release(run)
    assert runs.gaps == [(0, 100 * BLOCK)]


def test_a_run_has_whole_blocks_and_never_none() -> None:
    runs = RunAllocator(64)
    assert [runs.allocate(tokens).size for tokens in (0, 1, 16, 17) if tokens < 17] == [16, 16, 16]  # type: ignore[union-attr]
    assert runs.allocate(17) is None


def test_a_run_grows_in_place_only_into_what_is_free_behind_it() -> None:
    runs = RunAllocator(160)
    first, second = runs.allocate(32), runs.allocate(32)
    assert first is not None
    assert second is not None
    assert not runs.extend(first, 48)
    assert runs.extend(second, 128)
    assert not runs.extend(second, 129)
    assert (second.size, runs.free) == (128, 0)


def test_giving_back_more_often_than_taken_is_noticed() -> None:
    runs = RunAllocator(32)
    run = runs.allocate(16)
    assert run is not None
    assert runs.release(run)
    with pytest.raises(AssertionError, match="more often than held"):
        runs.release(run)


def test_a_lost_token_and_a_wrong_count_are_noticed() -> None:
    runs = RunAllocator(64)
    run = runs.allocate(16)
    assert run is not None
    with pytest.raises(AssertionError, match="lost"):
        runs.check([])
    runs.share(run)
    with pytest.raises(AssertionError, match="held 1 times"):
        runs.check([run])
