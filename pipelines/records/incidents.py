"""events.jsonl: what happened to workers and nodes over all sessions of a run, and what the summary says of it."""

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.records.journal import JsonLines
from pipelines.records.steps import read_steps
from pipelines.terminal.console import Console

QUIET = frozenset({"ready", "left", "node joined", "more workers"})
"""Kinds that are no trouble."""


class IncidentLog:
    """Writes a line an incident, and tells a person of it."""

    def __init__(self, path: Path, console: Console) -> None:
        self._lines = JsonLines(path)
        self._console = console

    def record(self, kind: str, worker: str, text: str, details: Mapping[str, Any]) -> None:
        """`details` may have `node`, the name of the node that the worker was on. Raises JournalError."""
        self._lines.append([{"time": time.time(), "kind": kind, "worker": worker, "text": text, **details}])
        if kind not in QUIET:
            self._console.warn(f"{worker} {kind}: {text}")
        elif kind != "ready":
            self._console.say(f"{worker} {kind}: {text}")


def incident_counts(path: Path) -> dict[str, Any]:
    """How often each kind of trouble came, in all and by node; empty for a run without any."""
    rows = [row for row in read_steps(path) if row["kind"] not in QUIET]
    kinds = Counter(row["kind"] for row in rows)
    by_node: dict[str, Counter[str]] = {}
    for row in rows:
        if name := row.get("node"):
            by_node.setdefault(name, Counter())[row["kind"]] += 1
    return {"kinds": dict(kinds), "by_node": {name: dict(found) for name, found in by_node.items()}} if rows else {}


def incident_lines(counts: Mapping[str, Any]) -> list[str]:
    """For the table of a summary."""
    if not counts:
        return []
    lines = [f"incidents    {_listed(counts['kinds'])}; events.jsonl has each"]
    return lines + [f"  node {name}: {_listed(found)}" for name, found in counts["by_node"].items()]


def _listed(found: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in found.items())
