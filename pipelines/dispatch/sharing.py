"""Which unit goes to which worker."""

import math
from collections import deque
from collections.abc import Iterator, Sequence

from pipelines.dispatch.slot import Slot, SlotState
from pipelines.dispatch.work import Unit


def shares(queue: deque[Unit], slots: Sequence[Slot], concurrency: int, window: int) -> Iterator[tuple[Slot, Unit]]:
    """Take units out of `queue`, each with the ready worker that is to have it; the caller puts it there at once.

    A first unit for every worker, then a second, and so on, until each has the `concurrency` that it does at once; then
    a reserve to have at hand, `window` in all. Workers that start or wait for weights count as takers, so the first that is
    ready leaves them their share.

    At the end of a run a unit should wait for the first worker that is free, not behind a certain one. So no reserve is
    given out once the other workers could start on all that is left.
    """
    ready = [slot for slot in slots if slot.state is SlotState.READY and not slot.outdated]
    takers = sum(slot.state in (SlotState.READY, SlotState.STARTING, SlotState.UPDATING) for slot in slots)
    for depth in range(window):
        for slot in ready:
            if len(slot.held) != depth:
                continue
            unshared = len(queue)
            fair = depth * takers < unshared + sum(len(other.held) for other in slots)
            reserve = depth >= concurrency
            if not fair or (reserve and unshared <= (takers - 1) * concurrency):
                return
            unit = _take(queue, slot, concurrency, window)
            if unit is not None:
                yield slot, unit


def _take(queue: deque[Unit], slot: Slot, concurrency: int, window: int) -> Unit | None:
    """The first unit that this worker may hold beside those that it has."""
    for index, unit in enumerate(queue):
        if len(slot.held) < min(company(other, concurrency, window) for other in (*slot.units, unit)):
            del queue[index]
            return unit
    return None


def company(unit: Unit, concurrency: int, window: int) -> int:
    """How many units a worker may hold while `unit` is among them.

    A unit over which two workers died may be what killed them. It shares the next one with few, and is alone after that:
    its neighbours come through meanwhile and are not given up for its sake.
    """
    if unit.losses < 2:
        return window
    return math.isqrt(concurrency) if unit.losses == 2 else 1
