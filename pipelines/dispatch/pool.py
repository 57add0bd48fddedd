"""Hands units of work to workers that may die, stall or fail, and loses none.

A state machine over injected I/O: a run gives it Ray, a test gives it a script. Workers pull: each has at most
`window` units and does `concurrency` of them at once, refilled as they come back, so no static share can straggle.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from pipelines.dispatch.contract import Failure, PoolLimits, Transport
from pipelines.dispatch.places import place_of
from pipelines.dispatch.sharing import SUSPECT_LOSSES, Takers
from pipelines.dispatch.slot import Held, Slot, SlotState
from pipelines.dispatch.unit_queue import UnitQueue
from pipelines.dispatch.work import Event, FatalError, Finished, GivenUp, Incident, Ref, Unit

LOOK_INTERVAL_S = 0.2
"""Between two looks at all workers, for those that may start again and those whose time is up."""


class WorkPool:
    """A queue of units before a set of workers.

    Drive it in a loop: `step` starts, refills and watches; `settle` takes a finished reference that the pool `owns`.
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
        self._queue = UnitQueue()
        self._slots: list[Slot] = []
        self._states: Counter[SlotState] = Counter()
        self._takers = Takers(limits.concurrency, limits.window)
        self._owner: dict[Ref, Slot] = {}
        self._held = 0
        self._look_at = float("-inf")
        self._ever_ready = False
        self._weights: Any = None
        self.grow(size)

    def grow(self, count: int) -> None:
        """Places for `count` more workers."""
        for _ in range(count):
            self._slots.append(Slot(len(self._slots)))
            self._states[SlotState.WAITING] += 1
        self._look_at = float("-inf")

    def leave(self, workers: Iterable[str]) -> None:
        """These workers finish what they hold, take no more, and are replaced."""
        for slot in self._slots:
            if slot.name in workers and slot.state in (SlotState.READY, SlotState.UPDATING):
                slot.leaving = True
                self._takers.note(slot)
        self._look_at = float("-inf")

    def set_weights(self, weights: Any) -> None:
        """From now on no worker takes a unit before it holds `weights`, the ones that start later included.

        A worker finishes first what it has in hand.
        """
        self._weights = weights
        for slot in self._slots:
            slot.outdated = slot.state in (SlotState.READY, SlotState.UPDATING)
            self._takers.note(slot)
            self._update_if_free(slot)

    def withdraw(self) -> None:
        """Forget what was not handed out yet."""
        self._queue.clear()

    def add(self, unit: Unit) -> None:
        self._queue.add(unit)

    @property
    def backlog(self) -> int:
        """Items that wait in the queue."""
        return self._queue.items

    @property
    def idle(self) -> bool:
        return not self._queue and not self._held

    def counts(self) -> dict[str, int]:
        return {str(state): self._states[state] for state in SlotState}

    def owns(self, ref: Ref) -> bool:
        return ref in self._owner

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
        if now >= self._look_at:
            self._look_at = now + LOOK_INTERVAL_S
            for slot in self._slots:
                yield from self._look_after(slot, now)
        if refill and self._queue:
            workers = sum(self._states[state] for state in (SlotState.READY, SlotState.STARTING, SlotState.UPDATING))
            for slot, unit in self._takers.shares(self._queue, len(self._queue) + self._held, workers):
                self._hand_out(slot, unit)

    def _look_after(self, slot: Slot, now: float) -> Iterator[Event]:
        if slot.state is SlotState.WAITING and now >= slot.since:
            self._start(slot)
        elif slot.state is SlotState.STARTING and now - slot.since > self._limits.start_timeout_s:
            yield from self._retire(slot, f"not ready within {self._limits.start_timeout_s:.0f} s")
        elif slot.state is SlotState.UPDATING and now - slot.since > self._limits.stall_timeout_s:
            silent = f"did not take new weights within {self._limits.stall_timeout_s:.0f} s"
            yield from self._bury(slot, silent, kind="stalled")
        elif slot.state is SlotState.READY and slot.held:
            yield from self._watch(slot)
        elif slot.state is SlotState.READY and slot.leaving:
            where = self._where(slot)
            self._dismiss(slot)
            self._enter(slot, SlotState.WAITING)
            yield Incident(self.name, "left", slot.name, "its node is being emptied; another takes its place", where)

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
            slot.update_ref = None
            self._enter(slot, SlotState.READY)
            self._update_if_free(slot)
        elif ref in slot.held:
            unit, seconds = self._take_back(slot, ref)
            slot.deaths = 0
            self._update_if_free(slot)
            yield Finished(self.name, unit, value, slot.name, seconds)
        else:
            slot.load_ref = None
            slot.outdated = self._weights is not None
            self._enter(slot, SlotState.READY)
            self._update_if_free(slot)
            self._ever_ready = True
            self.reports[slot.name] = value
            yield Incident(self.name, "ready", slot.name, "is ready", {"report": value})

    def close(self) -> None:
        for slot in self._slots:
            if slot.worker is not None:
                self._transport.kill(slot.worker)
            slot.worker = None
            self._enter(slot, SlotState.RETIRED)
        self._owner.clear()

    def _enter(self, slot: Slot, state: SlotState, since: float | None = None) -> None:
        """`since`: now, unless it is given."""
        self._states[slot.state] -= 1
        self._states[state] += 1
        slot.state = state
        slot.since = self._clock() if since is None else since
        self._takers.note(slot)

    def _start(self, slot: Slot) -> None:
        slot.incarnation += 1
        slot.name = f"{self.name}-{slot.index}" + (f"-{slot.incarnation}" if slot.incarnation > 1 else "")
        slot.worker = self._transport.create(slot.name)
        slot.load_ref = self._transport.load(slot.worker)
        self._owner[slot.load_ref] = slot
        self._enter(slot, SlotState.STARTING)

    def _update_if_free(self, slot: Slot) -> None:
        if slot.state is not SlotState.READY or not slot.outdated or slot.held:
            return
        slot.outdated = False
        self._enter(slot, SlotState.UPDATING)
        slot.update_ref = self._transport.update(slot.worker, self._weights)
        self._owner[slot.update_ref] = slot

    def _hand_out(self, slot: Slot, unit: Unit) -> None:
        now = self._clock()
        if not slot.held:
            slot.last_progress = slot.progress_asked = now
        ref = self._transport.call(slot.worker, unit)
        slot.held[ref] = Held(unit)
        slot.suspects += unit.losses >= SUSPECT_LOSSES
        self._held += 1
        self._takers.note(slot)
        slot.begin(self._limits.concurrency, now)
        self._owner[ref] = slot

    def _take_back(self, slot: Slot, ref: Ref) -> tuple[Unit, float]:
        """The unit, and the seconds since the worker could start on it; whatever came of it is a sign of life."""
        now = self._clock()
        held = slot.held.pop(ref)
        slot.suspects -= held.unit.losses >= SUSPECT_LOSSES
        self._held -= 1
        self._takers.note(slot)
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
        where = self._where(slot)
        units = self._dismiss(slot)
        slot.deaths += 1
        text = f"{reason}; its {len(units)} unit(s) go to others" if units else reason
        yield Incident(self.name, kind, slot.name, text, {"units": [unit.id for unit in units]} | where)
        # Only those that it was at may have been the cause.
        suspects, innocent = units[: self._limits.concurrency], units[self._limits.concurrency :]
        self._queue.put_back(innocent)
        for unit in reversed(suspects):
            yield from self._retry(replace(unit, losses=unit.losses + 1), reason, proven=len(suspects) == 1)
        if slot.deaths > self._limits.max_restarts:
            yield from self._retire(
                slot, f"died {slot.deaths} times in a row without finishing any work; last: {reason}"
            )
        else:
            pause = min(self._limits.max_backoff_s, self._limits.backoff_s * 2 ** (slot.deaths - 1))
            self._enter(slot, SlotState.WAITING, self._clock() + pause)

    def _dismiss(self, slot: Slot) -> list[Unit]:
        """Kill the worker and forget what it owed; returns its units."""
        self._transport.kill(slot.worker)
        for ref in slot.refs:
            self._owner.pop(ref, None)
        self.reports.pop(slot.name, None)
        self.progress.pop(slot.name, None)
        units = slot.units
        self._held -= len(units)
        slot.held, slot.suspects, slot.worker = {}, 0, None
        slot.load_ref = slot.progress_ref = slot.update_ref = None
        slot.outdated = slot.leaving = False
        return units

    def _where(self, slot: Slot) -> dict[str, Any]:
        place = place_of(self.reports.get(slot.name))
        return {"node": str(place)} if place else {}

    def _retire(self, slot: Slot, reason: str) -> Iterator[Event]:
        if slot.worker is not None:
            self._queue.put_back(self._dismiss(slot))
        self._enter(slot, SlotState.RETIRED)
        yield Incident(self.name, "retired", slot.name, reason)
        left = len(self._slots) - self._states[SlotState.RETIRED]
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
            self._queue.put_back([unit])
        elif len(unit.items) > 1 and (exhausted or unit.failures or unit.losses >= 2):
            self._queue.put_back(unit.split())
        elif exhausted:
            yield GivenUp(self.name, unit, reason)
        else:
            self._queue.put_back([unit])
