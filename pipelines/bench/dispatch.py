"""`mathlete bench dispatch`: what the driver costs a unit, from few to very many generators, none of which is real."""

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from heapq import heappop, heappush
from itertools import count
from statistics import median
from typing import Any

from pipelines.bench.machine import machine_facts
from pipelines.bench.part import positive
from pipelines.dispatch.contract import Failure, PoolLimits
from pipelines.dispatch.loop import events
from pipelines.dispatch.pool import WorkPool
from pipelines.dispatch.work import Finished, GivenUp, Incident, Ref, Unit
from pipelines.exit_codes import ExitCode
from pipelines.terminal.console import Console

CONCURRENCY, WINDOW = 16, 48
"""Of a generator with a batch of 64, see docs/dispatch.md."""

REQUESTS = 4
"""In a unit."""

GENERATORS_A_GRADER = 8
MEAN_S = 20.0
"""Of a unit; a tenth of them takes more than twice as long."""
GRADING_S = 0.05
PROMPT_TOKENS, COMPLETION_TOKENS = 150, 300
UNITS_A_DEATH = 2_000
"""Calls of which one kills its generator on average."""

RAY_ACTORS = 2
"""They share the machine with the driver, whose time is what counts."""

LEAST_UNITS_PER_S = 2_000
MOST_GROWTH = 1.5
"""Of the cost of a unit, from the fewest actors to the most: what memory that fits into no cache adds is in it."""


class SimulatedDeath(Exception):
    """The worker is gone."""


@dataclass(slots=True, eq=False)
class _Worker:
    busy_until: list[float]
    alive: bool = True
    answers: int = 0


class SimulatedFleet:
    """Workers that only take time, on a clock that jumps to the next answer; the I/O of any number of pools."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int]] = []
        self._answers: dict[int, tuple[_Worker, Any]] = {}
        self._numbers = count()

    def promise(self, when: float, worker: _Worker, value: Any) -> Ref:
        number = next(self._numbers)
        self._answers[number] = (worker, value)
        heappush(self._due, (when, number))
        return number

    def wait(self, timeout: float) -> Ref | None:
        if not self._due or self._due[0][0] > self.now + timeout:
            self.now += timeout
            return None
        when, number = heappop(self._due)
        self.now = max(self.now, when)
        return number

    def take(self, ref: Any) -> tuple[_Worker, Any]:
        return self._answers.pop(ref)


class SimulatedTransport:
    """One pool's workers in a fleet. `seconds()` is what a call takes; one in `calls_a_death` ends its worker."""

    def __init__(
        self, fleet: SimulatedFleet, concurrency: int, seconds: Callable[[], float], dies: Callable[[], bool]
    ) -> None:
        self._fleet = fleet
        self._concurrency = concurrency
        self._seconds = seconds
        self._dies = dies

    def create(self, name: str) -> _Worker:
        return _Worker([self._fleet.now] * self._concurrency)

    def load(self, worker: _Worker) -> Ref:
        return self._fleet.promise(self._fleet.now + 1.0, worker, None)

    def call(self, worker: _Worker, unit: Unit) -> Ref:
        start = max(self._fleet.now, heappop(worker.busy_until))
        end = start + self._seconds()
        heappush(worker.busy_until, end)
        return self._fleet.promise(end, worker, SimulatedDeath() if self._dies() else unit.items)

    def update(self, worker: _Worker, weights: Any) -> Ref:
        return self._fleet.promise(self._fleet.now, worker, None)

    def progress(self, worker: _Worker) -> Ref:
        worker.answers += 1
        return self._fleet.promise(self._fleet.now, worker, worker.answers)

    def kill(self, worker: _Worker) -> None:
        worker.alive = False

    def fetch(self, ref: Ref) -> Any:
        worker, value = self._fleet.take(ref)
        if not worker.alive or isinstance(value, SimulatedDeath):
            worker.alive = False
            raise SimulatedDeath
        return value

    def classify(self, error: Exception) -> Failure:
        return Failure.INFRA if isinstance(error, SimulatedDeath) else Failure.FATAL

    def describe(self, error: Exception) -> str:
        return type(error).__name__


@dataclass(frozen=True, slots=True)
class Cost:
    """What a simulated run cost the driver. `wrong` counts requests that were not generated and graded exactly once."""

    actors: int
    units: int
    deaths: int
    wrong: int
    cpu_s: float

    @property
    def units_per_s(self) -> float:
        return self.units / self.cpu_s

    @property
    def us_a_unit(self) -> float:
        return 1e6 * self.cpu_s / self.units


def simulate(actors: int, units: int, seed: int) -> Cost:
    """An evaluation's two pools, driven as an evaluation drives them, but for the records."""
    draw = random.Random(seed)
    fleet = SimulatedFleet()

    def pool(
        name: str, size: int, limits: PoolLimits, seconds: Callable[[], float], dies: Callable[[], bool]
    ) -> WorkPool:
        transport = SimulatedTransport(fleet, limits.concurrency, seconds, dies)
        return WorkPool(name, transport, size, limits, clock=lambda: fleet.now)

    generators = pool(
        "generator",
        actors,
        PoolLimits(concurrency=CONCURRENCY, window=WINDOW, max_attempts=100),
        lambda: draw.lognormvariate(0, 0.6) * MEAN_S,
        lambda: draw.random() < 1 / UNITS_A_DEATH,
    )
    graders = pool("grader", -(-actors // GENERATORS_A_GRADER), PoolLimits(), lambda: GRADING_S, lambda: False)
    work = [Unit(f"unit-{n}", tuple(range(n * REQUESTS, (n + 1) * REQUESTS))) for n in range(units)]
    graded: Counter[int] = Counter()
    deaths = 0
    start = time.process_time()
    for unit in work:
        generators.add(unit)
    for event in events(
        [generators, graders], fleet.wait, lambda: False, max_backlog=64 * actors, clock=lambda: fleet.now
    ):
        match event:
            case Finished(pool="generator"):
                graders.add(Unit(event.unit.id, event.result))
            case Finished(pool="grader"):
                graded.update(event.result)
            case GivenUp():
                raise AssertionError(f"{event.unit.id} was given up: {event.reason}")
            case Incident(kind="died"):
                deaths += 1
    cpu_s = time.process_time() - start
    right = sum(graded[request] == 1 for unit in work for request in unit.items)
    return Cost(actors, units, deaths, max(len(graded), units * REQUESTS) - right, cpu_s)


def through_ray(actors: int, units: int) -> tuple[float, float]:
    """(seconds, processor seconds of the driver) of units through a private Ray, whose actors answer at once."""
    from actors.engine.requests import GenerationRequest
    from pipelines.config.schema import ClusterConfig
    from pipelines.dispatch.connect import connected
    from pipelines.dispatch.echo import echo_pool
    from pipelines.dispatch.fleet import Inbox
    from pipelines.dispatch.signals import StopFlag

    prompt = tuple(range(PROMPT_TOKENS))
    work = [
        Unit(f"unit-{n}", tuple(GenerationRequest(f"p{n}", k, prompt) for k in range(REQUESTS))) for n in range(units)
    ]
    with connected(ClusterConfig(address="local"), 0, StopFlag()):
        inbox = Inbox()
        pool = echo_pool(actors, COMPLETION_TOKENS, PoolLimits(concurrency=CONCURRENCY, window=WINDOW), inbox)
        try:
            ready = events(
                [pool], inbox.wait, lambda: False, max_backlog=0, finished=lambda: len(pool.reports) == actors
            )
            assert all(not isinstance(event, GivenUp) for event in ready)
            start, cpu = time.perf_counter(), time.process_time()
            for unit in work:
                pool.add(unit)
            done = sum(
                isinstance(event, Finished) for event in events([pool], inbox.wait, lambda: False, max_backlog=0)
            )
            seconds, driver = time.perf_counter() - start, time.process_time() - cpu
        finally:
            pool.close()
    assert done == units
    return seconds, driver


def add_parser(kinds: Any) -> None:
    """Add `dispatch` to what `mathlete bench` measures."""
    text = "the driver's cost a unit with simulated generators, and whether it grows with their number"
    parser = kinds.add_parser("dispatch", help=text, description=text)
    parser.set_defaults(tool=run)
    parser.add_argument(
        "--actors", type=positive, nargs="+", default=[10, 100, 1000], metavar="N", help="default: 10 100 1000"
    )
    parser.add_argument("--units", type=positive, default=100_000, metavar="N", help="default: 100000")
    parser.add_argument(
        "--ray-units",
        type=int,
        default=0,
        metavar="N",
        help="send so many units through a private Ray as well, whose two actors answer at once (default 0)",
    )
    parser.add_argument("--rounds", type=positive, default=3, metavar="N", help="times that each runs (default 3)")
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output, nothing else")
    parser.add_argument("--quiet", action="store_true", help="no progress, only warnings and errors")


def run(options: argparse.Namespace, console: Console, command: str) -> int:
    """Simulate and print. ERROR where a request was lost or done twice; a missed target is shown, and is no error."""
    costs: dict[int, list[Cost]] = {actors: [] for actors in sorted(set(options.actors))}
    for number in range(options.rounds):
        for actors in list(costs)[:: 1 if number % 2 == 0 else -1]:
            cost = simulate(actors, options.units, number)
            costs[actors].append(cost)
            console.say(f"round {number + 1} of {options.rounds}: {actors} actors: {cost.us_a_unit:.0f} us a unit")
    machine = machine_facts(command, 1, {})
    rows = [middle(costs[actors]) for actors in costs]
    ray = through_ray(RAY_ACTORS, options.ray_units) if options.ray_units else None
    growth = rows[-1].us_a_unit / rows[0].us_a_unit
    wrong = sum(cost.wrong for each in costs.values() for cost in each)
    if options.json:
        found = {"rows": [asdict(row) | {"units_per_s": row.units_per_s} for row in rows], "growth": growth}
        if ray:
            found["through_ray"] = {"units": options.ray_units, "seconds": ray[0], "driver_cpu_s": ray[1]}
        print(
            json.dumps({"exit_code": int(wrong > 0), **found, "lost_or_twice": wrong, "machine": machine}), flush=True
        )
    else:
        print(table(rows, growth, wrong, machine), flush=True)
        if ray:
            seconds, driver = ray
            print(
                f"through Ray: {options.ray_units / seconds:,.0f} units/s with {RAY_ACTORS} actors on the same cores, "
                f"{1e6 * driver / options.ray_units:.0f} us of the driver a unit ({options.ray_units / driver:,.0f} units/s)"
            )
    return ExitCode.ERROR if wrong else ExitCode.COMPLETE


def middle(costs: Sequence[Cost]) -> Cost:
    """The run with the median cost."""
    wanted = median(cost.cpu_s for cost in costs)
    return min(costs, key=lambda cost: abs(cost.cpu_s - wanted))


def table(rows: Sequence[Cost], growth: float, wrong: int, machine: dict[str, Any]) -> str:
    lines = [f"{'actors':>8}{'units':>10}{'deaths':>8}{'us a unit':>11}{'units/s':>10}"]
    lines += [
        f"{row.actors:>8}{row.units:>10,}{row.deaths:>8}{row.us_a_unit:>11.0f}{row.units_per_s:>10,.0f}" for row in rows
    ]
    slowest = min(row.units_per_s for row in rows)
    lines += [
        "",
        f"least speed   {slowest:,.0f} units/s, target at least {LEAST_UNITS_PER_S:,}: {_held(slowest >= LEAST_UNITS_PER_S)}",
        f"growth        {growth:.2f} x from {rows[0].actors} to {rows[-1].actors} actors, target at most {MOST_GROWTH}: "
        f"{_held(growth <= MOST_GROWTH)}",
        f"exactly once  {'yes' if not wrong else f'NO: {wrong} requests lost or done twice'}",
        "",
        f"{machine['processor']}, one core; processor time of the driver's loop and the simulation itself, median of rounds",
    ]
    return "\n".join(lines)


def _held(held: bool) -> str:
    return "held" if held else "missed"
