"""Workers that do many units at once: even shares, clear guilt, honest times."""

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from pipelines.dispatch.contract import PoolLimits
from pipelines.dispatch.loop import events
from pipelines.dispatch.pool import WorkPool
from pipelines.dispatch.sharing import company
from pipelines.dispatch.work import Event, Finished, GivenUp, Incident, Unit
from tests.pipelines.dispatch.script import Died, FakeWorker, ScriptTransport
from tests.pipelines.dispatch.test_pool import done_items, expected, given_up, kinds, units


def limits(concurrency: int, **others: float) -> PoolLimits:
    return PoolLimits(concurrency, 3 * concurrency, stall_timeout_s=60.0, **others)  # type: ignore[arg-type]


def run(
    transport: ScriptTransport, work: list[Unit], workers: int, patience: PoolLimits
) -> Iterator[tuple[Event, dict[str, int]]]:
    """What happens, and how many units each worker then has, as long as none dies."""
    transport.concurrency = patience.concurrency
    pool = WorkPool("worker", transport, workers, patience, transport.clock)
    for unit in work:
        pool.add(unit)
    finished: Counter = Counter()
    for event in events([pool], transport.wait, lambda: False, max_backlog=10, clock=transport.clock):
        finished[event.worker if isinstance(event, Finished) else None] += 1
        handed_out = Counter(name for name, _ in transport.calls)
        yield event, {name: handed_out[name] - finished[name] for name in pool.reports}


def seen(transport: ScriptTransport, work: list[Unit], workers: int, patience: PoolLimits) -> list[Event]:
    return [event for event, _ in run(transport, work, workers, patience)]


def times(draw: random.Random, work: list[Unit], shortest: float, longest: float) -> dict[str, float]:
    return {unit.id: draw.uniform(shortest, longest) for unit in work}


def test_a_thousand_units_over_three_workers_never_exceed_the_window() -> None:
    work = units(1000)
    seconds = times(random.Random(1), work, 0.5, 5)
    most: Counter = Counter()
    finished = []
    for event, held in run(ScriptTransport(lambda worker, unit: seconds[unit.id]), work, 3, limits(8)):
        most |= Counter(held)
        finished.append(event)
    assert done_items(finished) == expected(work)
    assert set(most.values()) == {24}


@pytest.mark.parametrize("slowness", [1.0, 2.0])
def test_no_worker_is_idle_while_another_has_a_reserve(slowness: float) -> None:
    work = units(200)
    seconds = times(random.Random(2), work, 4, 6)
    transport = ScriptTransport(lambda worker, unit: seconds[unit.id] * (slowness if worker.name == "worker-1" else 1))
    for _, held in run(transport, work, 3, limits(8)):
        assert len(held) < 3 or min(held.values()) > 0 or max(held.values()) <= 8


def test_the_end_of_a_run_is_spread_evenly() -> None:
    work = units(150)
    seconds = times(random.Random(3), work, 4, 6)
    transport = ScriptTransport(lambda _, unit: seconds[unit.id])
    ends = {}
    for event, _ in run(transport, work, 3, limits(8)):
        if isinstance(event, Finished):
            ends[event.worker] = transport.now
    assert max(ends.values()) - min(ends.values()) < 6


@pytest.mark.parametrize("late", [0.0, 3.0])
def test_a_small_run_is_shared_by_all_workers_even_by_those_that_are_ready_later(late: float) -> None:
    transport = ScriptTransport(lambda *_: 10.0, startup=lambda worker: 0.0 if worker.name == "worker-0" else late)
    done = seen(transport, units(7), 3, limits(16))
    by_worker = Counter(event.worker for event in done if isinstance(event, Finished))
    assert sorted(by_worker.values()) == [2, 2, 3]
    assert transport.now == 10 + late


def test_a_worker_that_never_starts_costs_the_run_none_of_its_work() -> None:
    work = units(50)
    transport = ScriptTransport(startup=lambda worker: 1e9 if worker.name == "worker-1" else 0.0)
    assert done_items(seen(transport, work, 2, limits(4, start_timeout_s=1e6))) == expected(work)


def test_seconds_run_from_when_the_worker_could_start_on_the_unit() -> None:
    work = units(40)
    seconds = times(random.Random(4), work, 1, 9)
    done = seen(ScriptTransport(lambda _, unit: seconds[unit.id]), work, 2, limits(3))
    told = {event.unit.id: event.seconds for event in done if isinstance(event, Finished)}
    assert told == pytest.approx(seconds)


def test_a_death_counts_against_what_the_worker_was_at_and_not_against_its_reserve() -> None:
    def behave(worker: FakeWorker, unit: Unit) -> float:
        if worker.name == "worker-0" and unit.id == "u2":
            raise Died("gone")
        return 5.0

    done = seen(ScriptTransport(behave), units(8), 1, limits(4))
    attempts = {event.unit.id: event.unit.attempt for event in done if isinstance(event, Finished)}
    assert attempts == {f"u{n}": 2 if n < 4 else 1 for n in range(8)}


@pytest.mark.parametrize("concurrency", [1, 2, 5, 16, 31, 256])
@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("workers", [1, 3])
def test_an_item_that_kills_its_workers_is_found_and_its_neighbours_are_not_given_up(
    concurrency: int, size: int, workers: int
) -> None:
    """It kills at once, so nothing else is ever finished beside it."""

    def behave(worker: FakeWorker, unit: Unit) -> float:
        if "i5.0" in unit.items:
            raise Died("out of memory")
        return 5.0

    work = units(40, size)
    done = seen(ScriptTransport(behave), work, workers, limits(concurrency))
    assert given_up(done) == ["i5.0"]
    assert done_items(done) == expected(work) - Counter(["i5.0"])
    assert kinds(done).count("died") == PoolLimits().max_attempts


def test_what_was_lost_beside_others_is_not_given_up_however_small_the_budget() -> None:
    def behave(worker: FakeWorker, unit: Unit) -> float:
        if "i5.0" in unit.items:
            raise Died("out of memory")
        return 5.0

    done = seen(ScriptTransport(behave), units(40), 2, limits(8, max_attempts=1))
    assert given_up(done) == ["i5.0"]


def test_a_unit_over_which_two_workers_died_shares_the_third_with_few_and_the_fourth_with_none() -> None:
    assert [company(Unit("u", ("x",), losses), 16, 32) for losses in range(5)] == [32, 32, 4, 1, 1]


def test_a_unit_that_fails_among_others_is_taken_apart_alone() -> None:
    def behave(worker: FakeWorker, unit: Unit) -> float:
        if "i5.1" in unit.items:
            raise ValueError("bad item")
        return 5.0

    work = units(40, size=4)
    done = seen(ScriptTransport(behave), work, 2, limits(8))
    assert given_up(done) == ["i5.1"]
    assert done_items(done) == expected(work) - Counter(["i5.1"])
    attempts = {event.unit.attempt for event in done if isinstance(event, Finished) and len(event.unit.items) == 4}
    assert attempts == {1}


def test_a_worker_that_hangs_with_many_units_is_told_by_the_first_and_their_number() -> None:
    def behave(worker: FakeWorker, unit: Unit) -> float:
        worker.stopped = worker.stopped or worker.name == "worker-0"
        return 1.0

    work = units(10)
    done = seen(ScriptTransport(behave), work, 2, limits(4))
    (stall,) = [event for event in done if isinstance(event, Incident) and event.kind == "stalled"]
    assert "while doing u0 and " in stall.text
    assert done_items(done) == expected(work)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost_done_twice_or_given_up_under_random_deaths(seed: int) -> None:
    draw = random.Random(seed)

    def behave(worker: FakeWorker, unit: Unit) -> float:
        if draw.random() < 0.05:
            raise Died("gone")
        return draw.uniform(0.5, 5)

    work = units(60, size=draw.randint(1, 4))
    patience = limits(draw.choice([2, 5, 16]), max_attempts=50, max_restarts=50)
    done = seen(ScriptTransport(behave), work, draw.randint(1, 4), patience)
    assert done_items(done) == expected(work)
    assert not any(isinstance(event, GivenUp) for event in done)


@pytest.mark.parametrize("seconds", [0.5, 30.0])
def test_the_pool_knows_at_the_end_how_far_each_worker_came(seconds: float) -> None:
    transport = ScriptTransport(lambda *_: seconds)
    pool = WorkPool("worker", transport, 2, limits(2), transport.clock)
    for unit in units(4):
        pool.add(unit)
    list(events([pool], transport.wait, lambda: False, max_backlog=1, clock=transport.clock))
    assert pool.progress == {worker.name: worker.steps for worker in transport.workers}
    assert len(pool.progress) == 2
