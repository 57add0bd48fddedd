"""Which node a worker is on, by what it said of itself when it was ready."""

from typing import Any, NamedTuple


class Place(NamedTuple):
    """A node: Ray's id, and the address of its machine, which several may share."""

    id: str
    address: str

    def __str__(self) -> str:
        return f"{self.address} ({self.id[:8]})"


def place_of(report: Any) -> Place | None:
    """None for a worker that has not said."""
    if isinstance(report, dict) and report.get("node_id"):
        return Place(report["node_id"], report["node"])
    placement = getattr(report, "placement", None)
    return Place(placement.node_id, placement.address) if placement is not None else None
