"""What a measurement hands back, and where it is kept."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.bench.rounds import RowResult
from pipelines.records.run_folder import open_run_folder, resolve_run_folder

FORMAT = 1
"""Of the document; it goes up when a field changes its meaning."""


@dataclass(frozen=True, slots=True)
class Result:
    """What was found: `facts` of the task, `rows`, the `text` for people, and `files` for the run folder by name."""

    facts: Mapping[str, Any]
    rows: Sequence[RowResult]
    text: str
    threads: int
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether a child crashed or hung."""
        return any(row.failed for row in self.rows)

    def document(self, kind: str, machine: Mapping[str, Any]) -> dict[str, Any]:
        """The result as one JSON object, as docs/performance.md describes it."""
        return {
            "bench": kind,
            "format": FORMAT,
            **self.facts,
            "machine": dict(machine),
            "rows": [row.as_json() for row in self.rows],
        }


def default_folder(kind: str, model: str) -> str:
    """`bench-<kind>-<model>-<time>`: no result replaces another."""
    return f"bench-{kind}-{Path(model).name}-{time.strftime('%Y%m%d-%H%M%S')}".lower()


def keep(document: Mapping[str, Any], files: Mapping[str, str], name: str, folder: str | None) -> Path:
    """Write `bench.json` and `files` into the run folder and return its path. Raises RunFolderError."""
    with open_run_folder(resolve_run_folder(name, folder)) as run:
        for file, text in files.items():
            run.write_text(run.path / file, text)
        run.write_text(run.path / "bench.json", json.dumps(document, indent=1) + "\n")
        return run.path
