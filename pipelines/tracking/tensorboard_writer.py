"""A run as TensorBoard files, in `tensorboard/` of the run folder."""

import json
from pathlib import Path
from typing import Any

from pipelines.tracking.order import COLUMNS, Ending, Order
from pipelines.tracking.points import Point, Sent
from pipelines.tracking.secrets import secret_values, without_secrets
from pipelines.tracking.writer import TrackingError


class TensorboardWriter:
    """Written anew from metrics.jsonl by every session, so that nothing is there twice."""

    label = "TensorBoard"

    def __init__(self, order: Order) -> None:
        self._folder = Path(order.folder) / "tensorboard"
        self._sent = Sent()
        self._events: Any = None

    def begin(self) -> str:
        """Replace the files of earlier sessions; returns how to look at them. Raises TrackingError without TensorBoard."""
        try:
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise TrackingError(f"it is not installed (pip install 'mathlete[tensorboard]'): {error}") from error
        self._folder.mkdir(exist_ok=True)
        for old in self._folder.glob("events.out.tfevents.*"):
            old.unlink()
        self._sent = Sent()
        self._events = EventFileWriter(str(self._folder), flush_secs=2)
        return f"TensorBoard: `tensorboard --logdir {self._folder}`"

    def begin_again(self) -> None:
        self.begin()

    def log(self, point: Point) -> None:
        """Write what is new of `point`."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        new = self._sent.news(point)
        if new is not None:
            values = [Summary.Value(tag=name, simple_value=value) for name, value in new.values.items()]
            self._events.add_event(Event(wall_time=new.time, step=new.step, summary=Summary(value=values)))

    def log_checkpoint(self, path: Path) -> None:
        """Checkpoints stay where they are."""

    def finish(self, ending: Ending) -> None:
        """Write the samples, each as a text, and close the files."""
        if ending.samples is not None:
            rows = json.loads(Path(ending.samples).read_text(encoding="utf-8"))
            for place, row in enumerate(without_secrets(rows, secret_values())):
                self._write_text(
                    place, "\n\n".join(f"**{name}**: {value}" for name, value in zip(COLUMNS, row, strict=True))
                )
        self._events.flush()
        self._events.close()

    def _write_text(self, place: int, text: str) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
        from tensorboard.util.tensor_util import make_tensor_proto

        plugin = SummaryMetadata.PluginData(plugin_name="text")
        value = Summary.Value(
            tag="samples", metadata=SummaryMetadata(plugin_data=plugin), tensor=make_tensor_proto([text.encode()])
        )
        self._events.add_event(Event(step=place, summary=Summary(value=[value])))
