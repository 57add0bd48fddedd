"""Units that wait for a worker."""

from collections import deque
from collections.abc import Callable, Sequence

from pipelines.dispatch.work import Unit


class UnitQueue:
    """First in, first out, but for what comes back to the front; knows how many `items` its units hold together."""

    def __init__(self) -> None:
        self.items = 0
        self._units: deque[Unit] = deque()

    def __len__(self) -> int:
        return len(self._units)

    def add(self, unit: Unit) -> None:
        self._units.append(unit)
        self.items += len(unit.items)

    def put_back(self, units: Sequence[Unit]) -> None:
        """To the front, the first of them foremost."""
        self._units.extendleft(reversed(units))
        self.items += sum(len(unit.items) for unit in units)

    def take(self, wanted: Callable[[Unit], bool]) -> Unit | None:
        """Remove and return the first unit that is `wanted`."""
        for index, unit in enumerate(self._units):
            if wanted(unit):
                del self._units[index]
                self.items -= len(unit.items)
                return unit
        return None

    def clear(self) -> None:
        self._units.clear()
        self.items = 0
