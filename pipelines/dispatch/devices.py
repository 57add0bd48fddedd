"""The workers of a pool as a person sees them."""

from collections.abc import Mapping
from typing import Any, Protocol

from pipelines.terminal.status import Device


class Reporting(Protocol):
    """A pool, as far as this module is concerned."""

    @property
    def reports(self) -> Mapping[str, Any]: ...
    @property
    def progress(self) -> Mapping[str, Any]: ...
    def counts(self) -> Mapping[str, int]: ...


def devices(pool: Reporting) -> list[Device]:
    """Every worker that is ready."""
    return [_device(name, report, pool.progress.get(name) or {}) for name, report in sorted(pool.reports.items())]


def starting(pool: Reporting) -> list[str]:
    """What there is to say of workers that are not ready."""
    count = pool.counts()["starting"]
    return [f"{count} starting"] if count else []


def occupancy(pool: Reporting) -> float | None:
    """Share of the places in a batch that were taken, over all workers and steps; None where nobody told."""
    told = [counters for counters in pool.progress.values() if counters.get("place_steps")]
    places = sum(counters["place_steps"] for counters in told)
    return sum(counters["row_steps"] for counters in told) / places if places else None


def _device(name: str, report: Any, counters: Mapping[str, Any]) -> Device:
    gpu = f" (GPU {', '.join(report.placement.gpu_ids)})" if report.placement.gpu_ids else f", {report.threads} threads"
    busy, places = counters.get("busy_s"), counters.get("place_steps")
    return Device(
        name=name,
        place=f"{report.device_name}{gpu} on {report.placement.address}",
        live_rows=counters.get("live_rows"),
        waiting=counters.get("waiting"),
        occupancy=counters["row_steps"] / places if places else None,
        tokens_per_s=counters["tokens_sampled"] / busy if busy else None,
    )
