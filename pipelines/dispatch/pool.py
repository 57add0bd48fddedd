"""Hands units of work to workers that may die, stall or fail, and loses none.

A state machine over injected I/O: a run gives it Ray, a test gives it a script. Workers pull: each has at most
`window` units and does `concurrency` of them at once, refilled as they come back, so no static share can straggle.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

from pipelines.dispatch.sharing import shares
from pipelines.dispatch.slot import Held, Slot, SlotState
from pipelines.dispatch.work import Event, FatalError, Finished, GivenUp, Incident, Ref, Unit


class Failure(StrEnum):
    """INFRA: the worker or its node is gone, the work is innocent. DATA: the work fails wherever it runs.
    FATAL: no worker can do any of it."""

    INFRA = "infra"
    DATA = "data"
    FATAL = "fatal"


class Transport(Protocol):
    """The I/O of a pool. Nothing here blocks but `fetch`, which is called for finished results only.

    A worker that does several units at once raises the failure of one from the call of that one alone.
    """

    def create(self, name: str) -> Any: ...
    def load(self, worker: Any) -> Ref: ...
    def call(self, worker: Any, unit: Unit) -> Ref: ...
    def update(self, worker: Any, weights: Any) -> Ref: ...
    def progress(self, worker: Any) -> Ref: ...
    def kill(self, worker: Any) -> None: ...
    def fetch(self, ref: Ref) -> Any: ...
    def classify(self, error: Exception) -> Failure: ...
    def describe(self, error: Exception) -> str: ...


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """Measure and patience of a pool; seconds where the name says so."""

    concurrency: int = 1
    """Units that a worker does at once."""
    window: int = 2
    """Units that it holds, those at hand for when it is done with others included."""
    min_workers: int = 1
    max_attempts: int = 5
    """Times that a unit may be lost with its worker."""
    max_failures: int = 2
    """Times that a unit may raise: once more, in case the fault was not its own."""
    max_restarts: int = 5
    start_timeout_s: float = 1800.0
    stall_timeout_s: float = 300.0
    progress_interval_s: float = 5.0
    backoff_s: float = 1.0
    max_backoff_s: float = 30.0


class WorkPool:
    """A queue of units before a set of workers.

    Drive it in a loop: `step` starts, refills and watches; `refs` are what to wait for; `settle` takes a finished one.
    """

    def __init__(
        self,
        name: str,
        transport: Transport,
        size: int,
        limits: PoolLimits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.reports: dict[str, Any] = {}
        """What each living worker said of itself when it was ready."""
        self.progress: dict[str, Any] = {}
        """What each living worker last said of how far it is."""
        self._transport = transport
        self._limits = limits
        self._clock = clock
        self._queue: deque[Unit] = deque()
        self._slots = [Slot(index) for index in range(size)]
        self._owner: dict[Ref, Slot] = {}
        self._ever_ready = False
        self._weights: Any = None

    def set_weights(self, weights: Any) -> None:
        """From now on no worker takes a unit before it holds `weights`, the ones that start later included.

        A worker finishes first what it has in hand.
        """
        self._weights = weights
        for slot in self._slots:
            slot.outdated = slot.state in (SlotState.READY, SlotState.UPDATING)

    def withdraw(self) -> None:
        """Forget what was not handed out yet."""
        self._queue.clear()

    def add(self, unit: Unit) -> None:
        self._queue.append(unit)

    @property
    def backlog(self) -> int:
        """Items that wait in the queue."""
        return sum(len(unit.items) for unit in self._queue)

    @property
    def idle(self) -> bool:
        return not self._queue and not any(slot.held for slot in self._slots)

    def counts(self) -> dict[str, int]:
        return {str(state): sum(slot.state is state for slot in self._slots) for state in SlotState}

    def refs(self) -> list[Ref]:
        return list(self._owner)

    @property
    def asking(self) -> bool:
        return any(slot.progress_ref is not None for slot in self._slots)

    def ask(self) -> None:
        """Ask every ready worker how far it is; the answers come to `settle`, and then to `progress`."""
        for slot in self._slots:
            if slot.state is SlotState.READY and slot.progress_ref is None:
                self._ask(slot)

    def step(self, *, refill: bool = True) -> Iterator[Event]:
        """Start what may start, give up what is stuck, hand out work.

        Raises FatalError when too few workers are left.
        """
        now = self._clock()
        for slot in self._slots:
            if slot.state is SlotState.WAITING and now >= slot.since:
                self._start(slot)
            elif slot.state is SlotState.STARTING and now - slot.since > self._limits.start_timeout_s:
                yield from self._retire(slot, f"not ready within {self._limits.start_timeout_s:.0f} s")
            elif slot.state is SlotState.UPDATING and now - slot.since > self._limits.stall_timeout_s:
                silent = f"did not take new weights within {self._limits.stall_timeout_s:.0f} s"
                yield from self._bury(slot, silent, kind="stalled")
            elif slot.state is SlotState.READY and slot.held:
                yield from self._watch(slot)
            elif slot.state is SlotState.READY and slot.outdated:
                self._update(slot)
        if refill:
            for slot, unit in shares(self._queue, self._slots, self._limits.concurrency, self._limits.window):
                self._hand_out(slot, unit)

    def settle(self, ref: Ref) -> Iterator[Event]:
        """Take the outcome of a finished reference.

        Raises FatalError for a failure that no other worker would escape.
        """
        slot = self._owner.pop(ref, None)
        if slot is None:  # its worker was given up while this result was on its way
            return
        try:
            value = self._transport.fetch(ref)
        except Exception as error:  # noqa: BLE001  (classified: nothing is swallowed)
            yield from self._failed(slot, ref, error)
            return
        if ref == slot.progress_ref:
            slot.progress_ref = None
            self._note_progress(slot, value)
        elif ref == slot.update_ref:
            slot.state, slot.update_ref = SlotState.READY, None
        elif ref in slot.held:
            unit, seconds = self._take_back(slot, ref)
            slot.deaths = 0
            yield Finished(self.name, unit, value, slot.name, seconds)
        else:
            slot.state, slot.since = SlotState.READY, self._clock()
            slot.outdated = self._weights is not None
            self._ever_ready = True
            self.reports[slot.name] = value
            yield Incident(self.name, "ready", slot.name, "is ready", {"report": value})

    def close(self) -> None:
        for slot in self._slots:
            if slot.worker is not None:
                self._transport.kill(slot.worker)
            slot.worker, slot.state = None, SlotState.RETIRED
        self._owner.clear()

    def _start(self, slot: Slot) -> None:
        slot.incarnation += 1
        slot.name = f"{self.name}-{slot.index}" + (f"-{slot.incarnation}" if slot.incarnation > 1 else "")
        slot.worker = self._transport.create(slot.name)
        slot.state, slot.since = SlotState.STARTING, self._clock()
        self._owner[self._transport.load(slot.worker)] = slot

    def _update(self, slot: Slot) -> None:
        slot.state, slot.since, slot.outdated = SlotState.UPDATING, self._clock(), False
        slot.update_ref = self._transport.update(slot.worker, self._weights)
        self._owner[slot.update_ref] = slot

    def _hand_out(self, slot: Slot, unit: Unit) -> None:
        now = self._clock()
        if not slot.held:
            slot.last_progress = slot.progress_asked = now
        ref = self._transport.call(slot.worker, unit)
        slot.held[ref] = Held(unit)
        slot.begin(self._limits.concurrency, now)
        self._owner[ref] = slot

    def _take_back(self, slot: Slot, ref: Ref) -> tuple[Unit, float]:
        """The unit, and the seconds since the worker could start on it; whatever came of it is a sign of life."""
        now = self._clock()
        held = slot.held.pop(ref)
        slot.last_progress = now
        slot.begin(self._limits.concurrency, now)
        return held.unit, now - (now if held.began is None else held.began)

    def _watch(self, slot: Slot) -> Iterator[Event]:
        """Ask a busy worker how far it is; one that shows no progress for too long is killed.

        Ray never reports a stopped process, so this is the only thing that ends such a wait.
        """
        now = self._clock()
        silent = now - slot.last_progress
        if silent > self._limits.stall_timeout_s:
            first, *others = slot.units
            work = f"{first.id} and {len(others)} more" if others else first.id
            answers = "did not answer" if slot.progress_ref is not None else "made no progress"
            yield from self._bury(slot, f"{answers} for {silent:.0f} s while doing {work}", kind="stalled")
        elif slot.progress_ref is None and now - slot.progress_asked >= self._limits.progress_interval_s:
            self._ask(slot)

    def _ask(self, slot: Slot) -> None:
        slot.progress_asked = self._clock()
        slot.progress_ref = self._transport.progress(slot.worker)
        self._owner[slot.progress_ref] = slot

    def _note_progress(self, slot: Slot, value: Any) -> None:
        if value != self.progress.get(slot.name):
            self.progress[slot.name], slot.last_progress = value, self._clock()

    def _failed(self, slot: Slot, ref: Ref, error: Exception) -> Iterator[Event]:
        failure, text = self._transport.classify(error), self._transport.describe(error)
        if failure is Failure.INFRA:
            yield from self._bury(slot, text, kind="died")
            return
        if ref == slot.update_ref:
            yield from self._bury(slot, f"did not take new weights: {text}", kind="failed to update")
            return
        loading = ref not in slot.held
        if loading and self._ever_ready:  # it loads elsewhere; a GPU may still hold its dead owner's memory
            yield from self._bury(slot, text, kind="failed to start")
            return
        if loading or failure is Failure.FATAL:
            raise FatalError(f"{slot.name}: {text}")
        unit, _ = self._take_back(slot, ref)
        yield Incident(self.name, "failed", slot.name, f"{unit.id} failed: {text}", {"unit": unit.id})
        yield from self._retry(replace(unit, failures=unit.failures + 1), text, proven=True)

    def _bury(self, slot: Slot, reason: str, kind: str) -> Iterator[Event]:
        """The worker is lost: its work goes back to the front of the queue and a new worker takes the place."""
        units = self._dismiss(slot)
        slot.deaths += 1
        text = f"{reason}; its {len(units)} unit(s) go to others" if units else reason
        yield Incident(self.name, kind, slot.name, text, {"units": [unit.id for unit in units]})
        # Only those that it was at may have been the cause.
        suspects, innocent = units[: self._limits.concurrency], units[self._limits.concurrency :]
        self._queue.extendleft(reversed(innocent))
        for unit in reversed(suspects):
            yield from self._retry(replace(unit, losses=unit.losses + 1), reason, proven=len(suspects) == 1)
        if slot.deaths > self._limits.max_restarts:
            yield from self._retire(
                slot, f"died {slot.deaths} times in a row without finishing any work; last: {reason}"
            )
        else:
            pause = min(self._limits.max_backoff_s, self._limits.backoff_s * 2 ** (slot.deaths - 1))
            slot.state, slot.since = SlotState.WAITING, self._clock() + pause

    def _dismiss(self, slot: Slot) -> list[Unit]:
        """Kill the worker and forget what it owed; returns its units."""
        self._transport.kill(slot.worker)
        self._owner = {ref: owner for ref, owner in self._owner.items() if owner is not slot}
        self.reports.pop(slot.name, None)
        self.progress.pop(slot.name, None)
        units = slot.units
        slot.held, slot.progress_ref, slot.update_ref, slot.worker = {}, None, None, None
        slot.outdated = False
        return units

    def _retire(self, slot: Slot, reason: str) -> Iterator[Event]:
        if slot.worker is not None:
            self._queue.extendleft(reversed(self._dismiss(slot)))
        slot.state = SlotState.RETIRED
        yield Incident(self.name, "retired", slot.name, reason)
        left = sum(other.state is not SlotState.RETIRED for other in self._slots)
        needed = min(self._limits.min_workers, len(self._slots))
        if left < needed:
            raise FatalError(
                f"{slot.name} {reason}. {left} of {len(self._slots)} {self.name} workers are left and {needed} are needed. "
                "What is finished is recorded; the same command resumes the run."
            )

    def _retry(self, unit: Unit, reason: str, *, proven: bool) -> Iterator[Event]:
        """Back to the front; a unit of many that is `proven` to be the cause is taken apart to find the guilty item."""
        exhausted = unit.failures >= self._limits.max_failures or unit.losses >= self._limits.max_attempts
        if not proven:
            self._queue.appendleft(unit)
        elif len(unit.items) > 1 and (exhausted or unit.failures or unit.losses >= 2):
            self._queue.extendleft(reversed(unit.split()))
        elif exhausted:
            yield GivenUp(self.name, unit, reason)
        else:
            self._queue.appendleft(unit)
