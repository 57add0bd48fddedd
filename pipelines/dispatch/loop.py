"""One loop over all pools: step them, wait a moment, settle what came back."""

import time
from collections.abc import Callable, Iterator, Sequence

from pipelines.dispatch.pool import WorkPool
from pipelines.dispatch.work import Event, Ref, Tick

Wait = Callable[[float], Ref | None]
"""`(timeout in seconds) -> a reference that is finished`, as soon as there is one; each is handed out once."""

_AT_ONCE = 256
"""Results that are settled before the pools are looked after and refilled again."""


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
    what they hold. Where all became idle every worker is asked once more how far it came. There is a Tick at least every
    `tick_s` seconds of waiting, and not much more often.
    """
    deadline: float | None = None
    next_tick = float("-inf")
    while True:
        if deadline is None and stop_requested():
            deadline = clock() + grace_s
            yield from _settle(pools, wait, 0.0)
        stopping = deadline is not None
        for pool, after in zip(pools, [*pools[1:], None], strict=True):
            blocked = after is not None and after.backlog > max_backlog
            yield from pool.step(refill=not blocked and not (stopping and pool is pools[0]))
        if clock() >= next_tick:
            next_tick = clock() + tick_s
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
    """Settle what is there, one after the other: whoever leaves the loop at an event leaves the rest for the next loop."""
    for number in range(_AT_ONCE):
        ref = wait(timeout if number == 0 else 0.0)
        if ref is None:
            return
        # Nobody owns what a worker answers that was given up meanwhile.
        owner = next((pool for pool in pools if pool.owns(ref)), None)
        if owner is not None:
            yield from owner.settle(ref)


def _last_look(pools: Sequence[WorkPool], wait: Wait, deadline: float, clock: Callable[[], float]) -> Iterator[Event]:
    for pool in pools:
        pool.ask()
    while any(pool.asking for pool in pools) and (left := deadline - clock()) > 0:
        yield from _settle(pools, wait, left)
