"""What a pool needs of its I/O, and how patient it is."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from pipelines.dispatch.work import Ref, Unit


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
