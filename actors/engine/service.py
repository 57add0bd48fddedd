"""One thread that runs an engine for many callers, whose requests join each other between two steps."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from actors.engine.engine import Engine
from actors.engine.requests import Completion, GenerationRequest, SamplingParams

if TYPE_CHECKING:
    from torch import Tensor

GATHER_S = 0.010
"""An idle engine that gets work starts when nothing more has come for so long: an engine that forms its batch once would
start with the first piece of what is handed out together. Through Ray on two busy cores, 32 calls made together arrive
within 7 to 19 ms, 1 to 11 ms apart at most."""

LONGEST_GATHER = 10
"""It starts after so many times that, whatever still comes."""

Result = TypeVar("Result")
Item = TypeVar("Item")


class EngineBroken(RuntimeError):
    """The engine takes no more work: its process must be replaced. Whose work was in it is not the cause, or not alone."""


class ServiceClosed(RuntimeError):
    """The service was closed before the work was done."""


@dataclass(slots=True, eq=False)
class _Call:
    requests: Sequence[GenerationRequest]
    sampling: SamplingParams
    future: Future[list[Completion]] = field(default_factory=Future)
    made: dict[int, Completion] = field(default_factory=dict)
    """Completions by their place among `requests`."""


@dataclass(slots=True)
class _Errand:
    do: Callable[[], None]
    future: Future[None] = field(default_factory=Future)


class EngineService:
    """Owns `engine`, on a thread of its own that first runs `prepare`; everything here may be called from any thread.

    A step that raises fails the call that makes it raise, and no other. What was in the engine is run again in halves,
    without what has been completed, until a call fails alone.

    Once the engine cannot be used any more (an error of the device, one that leaves it in an unknown state), this and
    every later call raises EngineBroken.
    """

    def __init__(
        self, engine: Engine, prepare: Callable[[], None] = lambda: None, *, gather_s: float = GATHER_S
    ) -> None:
        self._engine = engine
        self._prepare = prepare
        self._gather_s = gather_s
        self._changed = threading.Condition()
        self._arrived: list[_Call] = []
        self._errands: list[_Errand] = []
        self._refusal: Exception | None = None
        """Why no more work is taken."""
        self._open: set[Future[Any]] = set()
        """What somebody may wait for; it leaves by itself when it is done. What follows is the thread's own."""
        self._running: dict[int, tuple[_Call, int]] = {}
        """By ticket: the call, and the place in it."""
        self._suspects: list[list[_Call]] = []
        """Calls that were together in a step that raised, each list to be run apart from everything else."""
        self._thread = threading.Thread(target=self._serve, name="engine", daemon=True)
        self._thread.start()

    def generate(self, requests: Sequence[GenerationRequest], sampling: SamplingParams) -> list[Completion]:
        """Return one completion a request, in order, once all are done.

        Raises what the engine raises over these requests, EngineBroken, ServiceClosed, and CancelledError after `abort`.
        """
        return self.submit(requests, sampling).result()

    def submit(self, requests: Sequence[GenerationRequest], sampling: SamplingParams) -> Future[list[Completion]]:
        """`generate` without the wait."""
        call = _Call(requests, sampling)
        self._leave(self._arrived, call)
        return call.future

    def abort(self, future: Future[list[Completion]]) -> None:
        """Give up what `submit` returned: its requests leave the engine, and who waits for it gets CancelledError.

        What is finished already stays so.
        """
        if future.cancel():
            self._leave(self._errands, _Errand(self._forget_cancelled))

    def update_weights(self, weights: Mapping[str, "Tensor"], version: int) -> None:
        """`Engine.update_weights` between two steps; returns when it is done. Raises what the engine raises."""
        errand = _Errand(lambda: self._engine.update_weights(weights, version))
        self._leave(self._errands, errand)
        errand.future.result()

    def stats(self) -> dict[str, Any]:
        """The engine's counters, `policy_version`, and what the engine's own `stats` adds.

        Nothing in it changes while the engine stands still, so that whoever watches can take change for life.
        """
        own: Callable[[], dict[str, Any]] = getattr(self._engine, "stats", dict)
        version = self._engine.policy_version
        return {**asdict(self._engine.progress), "policy_version": version, **own()}

    def close(self) -> None:
        """End the thread, after the step that it is in. Calls that wait raise ServiceClosed, and so do later ones."""
        with self._changed:
            self._refusal = self._refusal or ServiceClosed("the engine was closed before this work was done")
            self._changed.notify()
        self._thread.join()

    def _leave(self, box: list[Any], item: _Call | _Errand) -> None:
        with self._changed:
            if self._refusal is not None:
                _fail(item.future, self._refusal)
                return
            self._open.add(item.future)
            item.future.add_done_callback(self._open.discard)
            box.append(item)
            self._changed.notify()

    def _serve(self) -> None:
        try:
            self._prepare()
            while self._take_what_came():
                self._start_suspects()
                if self._running:
                    self._step()
        except BaseException as error:  # noqa: BLE001  (told to every caller)
            broken = EngineBroken(f"{type(error).__name__}: {error}")
            broken.__cause__ = error
            with self._changed:
                self._refusal = broken
        assert self._refusal is not None
        for future in list(self._open):
            _fail(future, self._refusal)

    def _take_what_came(self) -> bool:
        """Sleep until there is something to do, and put into the engine what arrived; False at the end."""
        with self._changed:
            while not (self._busy or self._arrived or self._errands or self._refusal):
                self._changed.wait()
            if self._arrived and not self._busy:
                self._gather()
            if self._refusal:
                return False
            errands = _emptied(self._errands)
            calls = [] if self._suspects else _emptied(self._arrived)
        for errand in errands:
            self._run(errand)
        for call in calls:
            self._start(call)
        return True

    @property
    def _busy(self) -> bool:
        return bool(self._running or self._suspects)

    def _gather(self) -> None:
        deadline = time.monotonic() + LONGEST_GATHER * self._gather_s
        while not self._refusal and time.monotonic() < deadline:
            if not self._changed.wait(self._gather_s):
                return

    def _run(self, errand: _Errand) -> None:
        try:
            errand.do()
        except Exception as error:
            if _breaks_the_device(error):
                raise
            _fail(errand.future, error)
        else:
            _finish(errand.future, None)

    def _start_suspects(self) -> None:
        if self._suspects and not self._running:
            for call in self._suspects.pop(0):
                self._start(call)

    def _start(self, call: _Call) -> None:
        """Give the engine what is still to be made for this call."""
        if call.future.cancelled():
            return
        places = [place for place in range(len(call.requests)) if place not in call.made]
        try:
            tickets = self._engine.add([call.requests[place] for place in places], call.sampling)
        except Exception as error:
            if _breaks_the_device(error):
                raise
            _fail(call.future, error)
            return
        self._running |= {ticket: (call, place) for ticket, place in zip(tickets, places, strict=True)}
        self._finish_if_whole(call)

    def _step(self) -> None:
        try:
            done = self._engine.step()
        except Exception as error:
            if _breaks_the_device(error):
                raise
            self._part(error)
            return
        for ticket, completion in done:
            call, place = self._running.pop(ticket)
            call.made[place] = completion
            self._finish_if_whole(call)

    def _finish_if_whole(self, call: _Call) -> None:
        if len(call.made) == len(call.requests):
            _finish(call.future, [call.made[place] for place in range(len(call.requests))])

    def _part(self, error: Exception) -> None:
        """A step raised `error`: empty the engine. A call that was alone is the cause, more are run again in halves."""
        calls = list(dict.fromkeys(call for call, _ in self._running.values()))
        self._engine.abort(list(self._running))
        self._running.clear()
        if len(calls) == 1:
            _fail(calls[0].future, error)
        else:
            half = len(calls) // 2
            self._suspects[:0] = [calls[:half], calls[half:]]

    def _forget_cancelled(self) -> None:
        gone = [ticket for ticket, (call, _) in self._running.items() if call.future.cancelled()]
        self._engine.abort(gone)
        for ticket in gone:
            del self._running[ticket]


def _emptied(box: list[Item]) -> list[Item]:
    """What is in `box`. It stays the same list, because callers hold on to it before they hold the lock."""
    items = box.copy()
    box.clear()
    return items


def _finish(future: Future[Result], result: Result) -> None:
    if future.set_running_or_notify_cancel():
        future.set_result(result)


def _fail(future: Future[Any], error: Exception) -> None:
    if future.set_running_or_notify_cancel():
        future.set_exception(error)


def _breaks_the_device(error: Exception) -> bool:
    """After an error that CUDA reports late, every later call fails too. A lack of memory does no such harm."""
    import torch

    if isinstance(error, torch.OutOfMemoryError):
        return False
    return isinstance(error, torch.AcceleratorError) or (isinstance(error, RuntimeError) and "CUDA" in str(error))
