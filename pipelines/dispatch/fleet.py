"""Ray behind the pools: creates actors, calls them, waits for them."""

from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, cast

import ray

from pipelines.dispatch import failures
from pipelines.dispatch.contract import Failure
from pipelines.dispatch.work import Ref, Unit


class Inbox:
    """What the actors of all pools answered. Ray itself puts a result here when it arrives: to ask it for all that is
    open, as `ray.wait` does, would cost as much as there is open, every time."""

    def __init__(self) -> None:
        self._finished: SimpleQueue[Future[Any]] = SimpleQueue()

    def expect(self, ref: ray.ObjectRef) -> Ref:
        """The result to come of a call, which `wait` hands out when it is there."""
        future = ref.future()
        future.add_done_callback(self._finished.put)
        return future

    def wait(self, timeout: float) -> Ref | None:
        """Something that is finished and was not handed out, as soon as there is one; None after `timeout` seconds."""
        try:
            return self._finished.get(timeout=timeout) if timeout > 0 else self._finished.get_nowait()
        except Empty:
            return None


class RayTransport:
    """Actors of one class. `invoke(actor, unit)` makes the call that does a unit; answers come to `inbox`.

    An actor is never restarted by Ray and a call never repeated: the pool decides, since only it knows which units are
    lost, and the death of an actor then shows as one unambiguous error.
    """

    def __init__(
        self,
        actor_class: Any,
        arguments: tuple[Any, ...],
        options: dict[str, Any],
        invoke: Callable[[Any, Unit], Any],
        inbox: Inbox,
    ) -> None:
        self._actor_class = actor_class
        self._arguments = arguments
        self._options = {"max_restarts": 0, "max_task_retries": 0, **options}
        self._invoke = invoke
        self._inbox = inbox

    def create(self, name: str) -> Any:
        return self._actor_class.options(name=name, **self._options).remote(*self._arguments)

    def load(self, worker: Any) -> Ref:
        return self._inbox.expect(worker.load.remote())

    def call(self, worker: Any, unit: Unit) -> Ref:
        return self._inbox.expect(self._invoke(worker, unit))

    def update(self, worker: Any, weights: Any) -> Ref:
        return self._inbox.expect(worker.update_weights.remote(weights))

    def progress(self, worker: Any) -> Ref:
        return self._inbox.expect(worker.progress.remote())

    def kill(self, worker: Any) -> None:
        ray.kill(worker, no_restart=True)

    def fetch(self, ref: Ref) -> Any:
        return cast(Future[Any], ref).result(timeout=0)

    def classify(self, error: Exception) -> Failure:
        return failures.classify(error)

    def describe(self, error: Exception) -> str:
        return failures.describe(error)
