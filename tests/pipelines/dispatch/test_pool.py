"""The pool and its loop: every unit is done once, whatever happens to the workers."""

import random
from collections import Counter

import pytest

from pipelines.dispatch.contract import PoolLimits
from pipelines.dispatch.loop import events
from pipelines.dispatch.pool import WorkPool
from pipelines.dispatch.work import Event, FatalError, Finished, GivenUp, Incident, Unit
from tests.pipelines.dispatch.script import Broken, Died, FakeWorker, ScriptTransport

LIMITS = PoolLimits(stall_timeout_s=60.0, progress_interval_s=5.0)


def units(count: int, size: int = 1) -> list[Unit]:
    return [Unit(f"u{n}", tuple(f"i{n}.{k}" for k in range(size))) for n in range(count)]


def run(
    transport: ScriptTransport, work: list[Unit], workers: int = 2, limits: PoolLimits = LIMITS
) -> tuple[WorkPool, list[Event]]:
    pool = WorkPool("worker", transport, workers, limits, transport.clock)
    for unit in work:
        pool.add(unit)
    seen = list(events([pool], transport.wait, lambda: False, max_backlog=10, tick_s=1.0, clock=transport.clock))
    return pool, seen


def done_items(seen: list[Event]) -> Counter:
    return Counter(item for event in seen if isinstance(event, Finished) for item in event.unit.items)


def given_up(seen: list[Event]) -> list[str]:
    return [item for event in seen if isinstance(event, GivenUp) for item in event.unit.items]


def kinds(seen: list[Event]) -> list[str]:
    return [event.kind for event in seen if isinstance(event, Incident)]


def expected(work: list[Unit]) -> Counter:
    return Counter(item for unit in work for item in unit.items)


def test_every_unit_is_done_once_by_some_worker() -> None:
    work = units(20, size=3)
    transport = ScriptTransport()
    _, seen = run(transport, work, workers=3)
    assert done_items(seen) == expected(work)
    assert {name for name, _ in transport.calls} == {"worker-0", "worker-1", "worker-2"}


def test_at_most_two_units_are_with_a_worker() -> None:
    transport = ScriptTransport()
    pool = WorkPool("worker", transport, 2, LIMITS, transport.clock)
    for unit in units(12):
        pool.add(unit)
    finished: Counter = Counter()
    held = set()
    for event in events([pool], transport.wait, lambda: False, max_backlog=10, tick_s=1.0, clock=transport.clock):
        if isinstance(event, Finished):
            finished[event.worker] += 1
        held |= set((Counter(name for name, _ in transport.calls) - finished).values())
    assert max(held) == 2


def test_a_slow_worker_does_not_hold_a_share_of_the_work() -> None:
    transport = ScriptTransport(behave=lambda worker, unit: 10.0 if worker.name == "worker-0" else 1.0)
    _, seen = run(transport, units(24), workers=2)
    by_worker = Counter(event.worker for event in seen if isinstance(event, Finished))
    assert by_worker["worker-0"] <= 4
    assert transport.now <= 31


def test_the_work_of_a_dead_worker_goes_to_others() -> None:
    deaths = 0

    def behave(worker: FakeWorker, unit: Unit) -> float:
        nonlocal deaths
        if worker.name == "worker-1" and unit.id == "u5":
            deaths += 1
            raise Died("worker-1 died")
        return 1.0

    work = units(12, size=2)
    transport = ScriptTransport(behave=behave)
    _, seen = run(transport, work)
    assert done_items(seen) == expected(work)
    assert kinds(seen).count("died") == deaths <= 1


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost_or_done_twice_under_random_deaths(seed: int) -> None:
    draw = random.Random(seed)

    def behave(worker: FakeWorker, unit: Unit) -> float:
        if draw.random() < 0.15:
            raise Died("gone")
        return draw.uniform(0.5, 5)

    work = units(40, size=draw.randint(1, 4))
    limits = PoolLimits(max_attempts=50, max_restarts=50)
    _, seen = run(ScriptTransport(behave=behave), work, workers=draw.randint(1, 4), limits=limits)
    assert done_items(seen) == expected(work)


def test_a_unit_that_kills_its_workers_is_taken_apart_and_only_the_guilty_item_is_given_up() -> None:
    def behave(worker: FakeWorker, unit: Unit) -> float:
        if "i3.1" in unit.items:
            raise Died("out of memory")
        return 1.0

    work = units(8, size=4)
    _, seen = run(ScriptTransport(behave=behave), work)
    assert given_up(seen) == ["i3.1"]
    assert done_items(seen) == expected(work) - Counter(["i3.1"])


def test_an_item_that_fails_everywhere_is_given_up_alone_without_a_death() -> None:
    def behave(worker: FakeWorker, unit: Unit) -> float:
        if "i2.0" in unit.items:
            raise ValueError("bad item")
        return 1.0

    work = units(6, size=3)
    _, seen = run(ScriptTransport(behave=behave), work)
    assert given_up(seen) == ["i2.0"]
    assert done_items(seen) == expected(work) - Counter(["i2.0"])
    assert "died" not in kinds(seen)
    assert next(event.reason for event in seen if isinstance(event, GivenUp)) == "bad item"


def test_a_worker_that_stops_without_a_word_is_killed_and_its_work_done_by_others() -> None:
    def behave(worker: FakeWorker, unit: Unit) -> float:
        worker.stopped = worker.stopped or (worker.name == "worker-0" and unit.id == "u4")
        return 1.0

    work = units(10)
    transport = ScriptTransport(behave=behave)
    _, seen = run(transport, work)
    assert done_items(seen) == expected(work)
    (stall,) = [event for event in seen if isinstance(event, Incident) and event.kind == "stalled"]
    assert stall.worker == "worker-0"
    assert "did not answer for 6" in stall.text
    assert LIMITS.stall_timeout_s <= transport.now <= LIMITS.stall_timeout_s + 15


def test_a_long_unit_that_makes_progress_is_left_alone() -> None:
    _, seen = run(ScriptTransport(behave=lambda worker, unit: 1000.0), units(2))
    assert kinds(seen) == ["ready", "ready"]


def test_a_worker_that_answers_but_does_not_move_is_stalled() -> None:
    class Stuck(ScriptTransport):
        def progress(self, worker: FakeWorker) -> object:
            worker.steps = 6
            return super().progress(worker)

    transport = Stuck(behave=lambda worker, unit: 1e6 if worker.name == "worker-0" else 1.0)
    _, seen = run(transport, units(3), workers=1)
    assert done_items(seen) == expected(units(3))
    assert any(isinstance(event, Incident) and "made no progress" in event.text for event in seen)


def test_a_model_that_does_not_load_ends_the_run_with_its_reason() -> None:
    def startup(worker: FakeWorker) -> float:
        raise Broken("no weights in /models/x")

    with pytest.raises(FatalError, match="worker-0: no weights in /models/x"):
        run(ScriptTransport(startup=startup), units(2))


def test_workers_that_die_again_and_again_end_the_run_and_say_so() -> None:
    def behave(worker: FakeWorker, unit: Unit) -> float:
        raise Died("killed by the memory monitor")

    with pytest.raises(FatalError, match=r"died 4 times in a row .*killed by the memory monitor.*same command resumes"):
        run(ScriptTransport(behave=behave), units(30), limits=PoolLimits(max_restarts=3, max_attempts=100))


def test_restarts_wait_longer_each_time() -> None:
    transport = ScriptTransport(startup=lambda worker: 0.0)

    def behave(worker: FakeWorker, unit: Unit) -> float:
        if len(transport.workers) <= 4:
            raise Died("gone")
        return 1.0

    transport.behave = behave
    run(transport, units(1), workers=1, limits=PoolLimits(max_restarts=9, max_attempts=9, backoff_s=2.0))
    assert transport.now >= 2 + 4 + 8 + 16


def test_one_worker_lost_for_good_does_not_end_the_run() -> None:
    def behave(worker: FakeWorker, unit: Unit) -> float:
        if worker.name.startswith("worker-1"):
            raise Died("bad node")
        return 1.0

    work = units(30)
    pool, seen = run(ScriptTransport(behave=behave), work, limits=PoolLimits(max_restarts=2, max_attempts=99))
    assert done_items(seen) == expected(work)
    assert pool.counts()["retired"] == 1


def test_a_worker_that_cannot_be_placed_is_given_up_after_its_time() -> None:
    work = units(60)
    transport = ScriptTransport(startup=lambda worker: 1e9 if worker.name == "worker-1" else 0.0)
    _, seen = run(transport, work, limits=PoolLimits(start_timeout_s=20))
    assert done_items(seen) == expected(work)
    assert "retired" in kinds(seen)


def test_a_reload_that_fails_after_a_death_is_tried_again() -> None:
    """A GPU may still hold the memory of the process that died a moment ago."""

    def startup(worker: FakeWorker) -> float:
        if worker.name == "worker-0-2":
            raise Broken("out of device memory")
        return 0.0

    def behave(worker: FakeWorker, unit: Unit) -> float:
        if worker.name == "worker-0" and unit.id == "u1":
            raise Died("gone")
        return 1.0

    work = units(4)
    _, seen = run(ScriptTransport(behave=behave, startup=startup), work, workers=1)
    assert done_items(seen) == expected(work)


def test_a_stop_ends_the_hand_out_and_lets_the_next_stage_finish_what_it_holds() -> None:
    transport = ScriptTransport()
    first = WorkPool("first", transport, 2, LIMITS, transport.clock)
    second = WorkPool("second", transport, 1, LIMITS, transport.clock)
    for unit in units(50):
        first.add(unit)
    graded = 0
    asked_at: float | None = None

    def stop() -> bool:
        return graded >= 5

    for event in events([first, second], transport.wait, stop, max_backlog=10, grace_s=30.0, clock=transport.clock):
        if isinstance(event, Finished) and event.pool == "first":
            second.add(event.unit)
        elif isinstance(event, Finished):
            graded += 1
            if graded == 5:
                asked_at = transport.now
    handed_out = [unit for name, unit in transport.calls if name.startswith("first")]
    assert len(handed_out) < 20
    assert second.idle
    assert asked_at is not None
    assert transport.now - asked_at <= 30


def test_a_stop_does_not_wait_longer_than_its_grace_time() -> None:
    transport = ScriptTransport(behave=lambda worker, unit: 1e6)
    pools = [WorkPool(name, transport, 1, LIMITS, transport.clock) for name in ("first", "second")]
    pools[1].add(Unit("long", ("x",)))
    list(events(pools, transport.wait, lambda: transport.now > 10, max_backlog=1, grace_s=1.0, clock=transport.clock))
    assert transport.now <= 12


def test_the_first_stage_rests_while_the_second_is_behind() -> None:
    transport = ScriptTransport(behave=lambda worker, unit: 1.0 if worker.name.startswith("first") else 5.0)
    first = WorkPool("first", transport, 4, LIMITS, transport.clock)
    second = WorkPool("second", transport, 1, LIMITS, transport.clock)
    for unit in units(60):
        first.add(unit)
    finished: Counter = Counter()
    for event in events([first, second], transport.wait, lambda: False, max_backlog=6, clock=transport.clock):
        assert second.backlog <= 6 + 8
        if isinstance(event, Finished):
            finished[event.pool] += 1
            if event.pool == "first":
                second.add(event.unit)
    assert finished == {"first": 60, "second": 60}
