"""What happened to workers and nodes, as it is recorded, told and counted."""

import io
import json
from pathlib import Path

from pipelines.records.incidents import IncidentLog, incident_counts, incident_lines
from pipelines.terminal.console import Console


def log(path: Path) -> tuple[IncidentLog, io.StringIO]:
    heard = io.StringIO()
    return IncidentLog(path, Console(heard)), heard


def test_trouble_is_a_warning_and_the_ordinary_is_not(tmp_path: Path) -> None:
    incidents, heard = log(tmp_path / "events.jsonl")
    incidents.record("ready", "generator-0", "is ready", {"report": 1})
    incidents.record("node joined", "10.0.0.3 (cccc)", "has 4 CPU and 0 GPU", {})
    incidents.record("died", "generator-0", "gone", {"node": "10.0.0.1 (aaaa)", "units": ["u1"]})
    assert heard.getvalue().splitlines() == [
        "10.0.0.3 (cccc) node joined: has 4 CPU and 0 GPU",
        "warning: generator-0 died: gone",
    ]
    rows = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [row["kind"] for row in rows] == ["ready", "node joined", "died"]
    assert rows[2]["units"] == ["u1"]


def test_the_summary_counts_trouble_of_all_sessions_in_all_and_by_node(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for node in ("10.0.0.1 (aaaa)", "10.0.0.2 (bbbb)"):
        incidents, _ = log(path)
        incidents.record("ready", "generator-0", "is ready", {})
        incidents.record("died", "generator-0", "gone", {"node": node})
        incidents.record("retired", "generator-1", "not ready", {})
    with path.open("a") as file:
        file.write('{"kind": "died", "no')  # cut off by a crash
    counts = incident_counts(path)
    assert counts == {
        "kinds": {"died": 2, "retired": 2},
        "by_node": {"10.0.0.1 (aaaa)": {"died": 1}, "10.0.0.2 (bbbb)": {"died": 1}},
    }
    assert incident_lines(counts) == [
        "incidents    2 died, 2 retired; events.jsonl has each",
        "  node 10.0.0.1 (aaaa): 1 died",
        "  node 10.0.0.2 (bbbb): 1 died",
    ]


def test_a_run_without_trouble_says_nothing(tmp_path: Path) -> None:
    assert incident_counts(tmp_path / "events.jsonl") == {}
    assert incident_lines({}) == []
