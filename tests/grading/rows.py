"""The data of the grading tests, one JSON object a line."""

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


def read_rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def read_golds(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "math500.jsonl").read_text().splitlines()]
