"""Which unit goes to which worker."""

import math
from collections import OrderedDict
from collections.abc import Iterator

from pipelines.dispatch.slot import Slot
from pipelines.dispatch.unit_queue import UnitQueue
from pipelines.dispatch.work import Unit

SUSPECT_LOSSES = 2
"""A unit over which so many workers died may be what killed them."""


class Takers:
    """The workers that may be given a unit, by how many they hold.

    `note` is to be told of every change; `shares` then looks at no worker that gets nothing, so that a unit costs the same
    beside ten workers and beside a thousand.
    """

    def __init__(self, concurrency: int, window: int) -> None:
        self._concurrency = concurrency
        self._window = window
        self._by_depth: list[OrderedDict[int, Slot]] = [OrderedDict() for _ in range(window)]
        self._depths: dict[int, int] = {}

    def note(self, slot: Slot) -> None:
        """Put the worker where it belongs now."""
        known = self._depths.pop(slot.index, None)
        if known is not None:
            del self._by_depth[known][slot.index]
        if slot.takes_units and len(slot.held) < self._room(slot):
            self._by_depth[len(slot.held)][slot.index] = slot
            self._depths[slot.index] = len(slot.held)

    def shares(self, queue: UnitQueue, total: int, workers: int) -> Iterator[tuple[Slot, Unit]]:
        """Take units out of `queue`, each with the worker that is to have it; the caller gives it to that one at once, and
        notes it.

        A first unit for every worker, then a second, and so on, until each has the `concurrency` that it does at once;
        then a reserve to have at hand, `window` in all. `total` counts the units in the queue and with workers; `workers`
        also those that start or wait for weights, so the first that is ready leaves them their share.

        At the end of a run a unit should wait for the first worker that is free, not behind a certain one. So no reserve is
        given out once the other workers could start on all that is left.
        """
        unsuited: list[Slot] = []
        for depth, slots in enumerate(self._by_depth):
            reserve = depth >= self._concurrency
            while slots and queue:
                fair = depth * workers < total
                if not fair or (reserve and len(queue) <= (workers - 1) * self._concurrency):
                    break
                slot = next(iter(slots.values()))
                unit = queue.take(lambda unit, held=depth: held < self._company(unit))  # type: ignore[misc]
                if unit is None:
                    unsuited.append(slots.pop(slot.index))
                    del self._depths[slot.index]
                else:
                    yield slot, unit
            else:
                continue
            break
        for slot in unsuited:
            self.note(slot)

    def _room(self, slot: Slot) -> int:
        """How many units the worker may hold beside those that it has, these included."""
        return min(map(self._company, slot.units)) if slot.suspects else self._window

    def _company(self, unit: Unit) -> int:
        return company(unit, self._concurrency, self._window)


def company(unit: Unit, concurrency: int, window: int) -> int:
    """How many units a worker may hold while `unit` is among them.

    A unit over which two workers died may be what killed them. It shares the next one with few, and is alone after that:
    its neighbours come through meanwhile and are not given up for its sake.
    """
    if unit.losses < SUSPECT_LOSSES:
        return window
    return math.isqrt(concurrency) if unit.losses == SUSPECT_LOSSES else 1
