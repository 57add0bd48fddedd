"""What of metrics.jsonl goes out, and what went out already."""

import json
from pathlib import Path

from pipelines.records.steps import StepLines
from pipelines.tracking.points import Point, Sent, Tail, points


def test_values_of_a_step_and_of_an_evaluation_have_axes_of_their_own() -> None:
    row = {"step": 3, "time": 9.0, "reward/mean": 0.5, "eval/accuracy": 1, "note": "text", "absent": None}
    assert list(points(row)) == [
        Point("train/step", 3, 9.0, {"reward/mean": 0.5}),
        Point("eval/step", 3, 9.0, {"eval/accuracy": 1.0}),
    ]
    job = {"time": 9.0, "progress/done": 7, "progress/total": 9, "eval/accuracy": 0.25}
    assert list(points(job)) == [Point("progress/done", 7, 9.0, {"progress/total": 9.0, "eval/accuracy": 0.25})]


def test_a_value_goes_out_once_a_step_and_its_steps_only_rise() -> None:
    sent = Sent(names={"a": 4})
    assert sent.news(Point("train/step", 4, 0.0, {"a": 1.0})) is None
    assert sent.news(Point("train/step", 4, 0.0, {"a": 1.0, "b": 2.0})) == Point("train/step", 4, 0.0, {"b": 2.0})
    assert sent.news(Point("train/step", 5, 0.0, {"a": 3.0})) == Point("train/step", 5, 0.0, {"a": 3.0})
    assert sent.news(Point("train/step", 5, 0.0, {"a": 3.0})) is None
    assert Sent(axes={"eval/step": 6}).news(Point("eval/step", 6, 0.0, {"a": 1.0})) is None


def test_a_file_is_followed_by_whole_lines_and_read_again_where_it_was_replaced(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    tail = Tail(path)
    assert tail.new_rows() == []
    lines = StepLines(path)
    for step in (1, 2, 3):
        lines.append({"step": step})
    assert [row["step"] for row in tail.new_rows()] == [1, 2, 3]
    with path.open("a") as file:
        file.write(json.dumps({"step": 4})[:5])
        file.flush()
        assert tail.new_rows() == []
        file.write(json.dumps({"step": 4})[5:] + "\n")
        file.flush()
        assert tail.new_rows() == [{"step": 4}]
    lines.rewind(2)
    lines.append({"step": 3})
    assert [row["step"] for row in tail.new_rows()] == [1, 2, 3]
    assert tail.new_rows() == []
