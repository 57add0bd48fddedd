"""One loop over all pools: step them, wait a moment, settle what came back."""

import time
from collections.abc import Callable, Iterator, Sequence

from pipelines.dispatch.pool import WorkPool
from pipelines.dispatch.work import Event, Ref, Tick

Wait = Callable[[list[Ref], float], list[Ref]]
"""`(references, timeout in seconds) -> those that are finished`; without references it sleeps."""


def events(
    pools: Sequence[WorkPool],
    wait: Wait,
    stop_requested: Callable[[], bool],
    *,
    max_backlog: int,
    finished: Callable[[], bool] | None = None,
    tick_s: float = 0.2,
    grace_s: float = 1.0,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Event]:
    """What happens in the pools, until `finished()`, all of them being idle if it is not given, or a stop is requested.

    `pools` are in the order in which work flows; a pool is not refilled while the next one has more than `max_backlog`
    items waiting. After a stop request the first pool gets no more work and the others have `grace_s` seconds to finish
    what they hold. Where all became idle every worker is asked once more how far it came.
    """
    deadline: float | None = None
    while True:
        if deadline is None and stop_requested():
            deadline = clock() + grace_s
            yield from _settle(pools, wait, 0.0)
        stopping = deadline is not None
        for pool, after in zip(pools, [*pools[1:], None], strict=True):
            blocked = after is not None and after.backlog > max_backlog
            yield from pool.step(refill=not blocked and not (stopping and pool is pools[0]))
        yield Tick()
        if stopping:
            if all(pool.idle for pool in pools[1:]):
                return
        elif finished is not None:
            if finished():
                return
        elif all(pool.idle for pool in pools):
            yield from _last_look(pools, wait, clock() + grace_s, clock)
            return
        if deadline is not None and clock() >= deadline:
            return
        yield from _settle(pools, wait, tick_s)


def _settle(pools: Sequence[WorkPool], wait: Wait, timeout: float) -> Iterator[Event]:
    owners = {ref: pool for pool in pools for ref in pool.refs()}
    for ref in wait(list(owners), timeout):
        yield from owners[ref].settle(ref)


def _last_look(pools: Sequence[WorkPool], wait: Wait, deadline: float, clock: Callable[[], float]) -> Iterator[Event]:
    for pool in pools:
        pool.ask()
    while any(pool.asking for pool in pools) and (left := deadline - clock()) > 0:
        yield from _settle(pools, wait, left)
