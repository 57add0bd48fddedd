"""What each training step reported: one line a step, in order, with nothing of a future that was lost."""

import json
from pathlib import Path
from typing import Any

from pipelines.records.journal import JsonLines


class StepLines:
    """Append-only JSON lines with a `step`. A run that resumes from an earlier step takes the later ones back."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = JsonLines(path)

    def append(self, row: dict[str, Any]) -> None:
        """Raises JournalError when it cannot be written."""
        self._lines.append([row])

    def rows(self) -> list[dict[str, Any]]:
        """Every whole line; one that was cut off is left out."""
        return read_steps(self._path)

    def rewind(self, step: int) -> None:
        """Drop what is later than `step`, and lines that were cut off. A reader sees the file before or after, whole."""
        kept = [row for row in self.rows() if row["step"] <= step]
        draft = self._path.with_name(f".{self._path.name}")
        draft.unlink(missing_ok=True)
        lines = JsonLines(draft)
        lines.append(kept)
        lines.close()
        self._lines.close()
        draft.replace(self._path)
        self._lines = JsonLines(self._path)

    def close(self) -> None:
        self._lines.close()


def read_steps(path: Path) -> list[dict[str, Any]]:
    """The whole lines of such a file, in order; empty where there is none."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows
