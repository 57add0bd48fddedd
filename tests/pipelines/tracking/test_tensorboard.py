"""A run in TensorBoard, read back by TensorBoard."""

from pathlib import Path

import pytest

from pipelines.config.schema import TrackingConfig
from tests.pipelines.tracking.run import Run
from tests.pipelines.tracking.test_samples import rollout

accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def test_every_session_leaves_every_point_once(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", TrackingConfig(tensorboard=True, sample_rows=2))
    for first in (1, 3):
        with run.session() as tracker:
            rows = [{"step": number, "time": 1000.0, "reward/mean": number / 2} for number in (first, first + 1)]
            run.metrics.append([*rows, {"step": first, "time": 1000.0, "eval/accuracy": 0.5}])
            run.complete(tracker, [rollout(number) for number in range(5)])
        assert not run.warnings, run.warnings
    read = accumulator.EventAccumulator(str(run.path / "tensorboard"))
    read.Reload()
    assert [(event.step, event.value) for event in read.Scalars("reward/mean")] == [
        (1, 0.5),
        (2, 1.0),
        (3, 1.5),
        (4, 2.0),
    ]
    assert [event.step for event in read.Scalars("eval/accuracy")] == [1, 3]
    texts = [event.tensor_proto.string_val[0].decode() for event in read.Tensors("samples")]
    assert len(texts) == 2
    assert "**gold**: 2" in texts[0]
    assert f"tensorboard --logdir {run.path / 'tensorboard'}" in run.said.getvalue()
