"""Ray behind the pools: creates actors, calls them, waits for them."""

import time
from collections.abc import Callable
from typing import Any, cast

import ray

from pipelines.dispatch import failures
from pipelines.dispatch.pool import Failure
from pipelines.dispatch.work import Ref, Unit


class RayTransport:
    """Actors of one class. `invoke(actor, unit)` makes the call that does a unit.

    An actor is never restarted by Ray and a call never repeated: the pool decides, since only it knows which units are
    lost, and the death of an actor then shows as one unambiguous error.
    """

    def __init__(
        self,
        actor_class: Any,
        arguments: tuple[Any, ...],
        options: dict[str, Any],
        invoke: Callable[[Any, Unit], Any],
    ) -> None:
        self._actor_class = actor_class
        self._arguments = arguments
        self._options = {"max_restarts": 0, "max_task_retries": 0, **options}
        self._invoke = invoke

    def create(self, name: str) -> Any:
        return self._actor_class.options(name=name, **self._options).remote(*self._arguments)

    def load(self, worker: Any) -> Ref:
        return worker.load.remote()

    def call(self, worker: Any, unit: Unit) -> Ref:
        return self._invoke(worker, unit)

    def update(self, worker: Any, weights: Any) -> Ref:
        return worker.update_weights.remote(weights)

    def progress(self, worker: Any) -> Ref:
        return worker.progress.remote()

    def kill(self, worker: Any) -> None:
        ray.kill(worker, no_restart=True)

    def fetch(self, ref: Ref) -> Any:
        return ray.get(cast(ray.ObjectRef, ref), timeout=60)

    def classify(self, error: Exception) -> Failure:
        return failures.classify(error)

    def describe(self, error: Exception) -> str:
        return failures.describe(error)


def wait(refs: list[Ref], timeout: float) -> list[Ref]:
    """All finished references, as soon as there is one, at the latest after `timeout` seconds."""
    if not refs:
        time.sleep(timeout)
        return []
    ready, _ = ray.wait(refs, num_returns=1, timeout=timeout, fetch_local=False)
    if ready:
        ready, _ = ray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)
    return ready
