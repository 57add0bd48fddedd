"""What W&B's own files in a run folder hold: its record of a run survives a kill but for the last second."""

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.tracking.points import EVALUATION_AXIS, PROGRESS_AXIS, TRAINING_AXIS, Sent

_HEAD = 7
"""Bytes of the file's head, and of that of each piece: checksum, length, kind."""
_BLOCK = 32 * 1024
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_AXES = (TRAINING_AXIS, EVALUATION_AXIS, PROGRESS_AXIS)


@dataclass
class Kept:
    """Of one run, over all its sessions: what was sent, W&B's own next step, and the checkpoints that were logged."""

    sent: Sent = field(default_factory=Sent)
    next_step: int = 0
    checkpoints: set[str] = field(default_factory=set)


def read_kept(folder: Path, run_id: str) -> Kept:
    """What the sessions of `run_id` left in `folder`, W&B's directory."""
    kept = Kept()
    for path in sorted(folder.glob(f"*run-*-{run_id}/run-{run_id}.wandb")):
        for record in read_records(path):
            kind = record.WhichOneof("record_type")
            if kind == "history":
                _note(history_values(record.history), kept)
            elif kind == "artifact" and record.artifact.type == "model":
                kept.checkpoints |= {alias for alias in record.artifact.aliases if alias.startswith("step_")}
    return kept


def history_values(history: Any) -> dict[str, Any]:
    """The numbers and texts of a history record by name; nested values by their outermost name."""
    return {(item.key or item.nested_key[0]): json.loads(item.value_json) for item in history.item}


def read_records(path: Path) -> Iterator[Any]:
    """The whole records of a `.wandb` file, as messages of W&B's own protocol, up to the first that is damaged.

    The format is nearly that of LevelDB's log: a head, then blocks of 32 KiB with pieces of records, each with the CRC-32
    of its kind and content.
    """
    from wandb.proto.wandb_internal_pb2 import Record  # type: ignore[attr-defined]  # which it makes when imported

    for data in _whole_records(path.read_bytes()):
        record = Record()
        record.ParseFromString(data)
        yield record


def _whole_records(content: bytes) -> Iterator[bytes]:
    position, parts = _HEAD, b""
    while position + _HEAD <= len(content):
        room = _BLOCK - position % _BLOCK
        if room < _HEAD:
            position += room
            continue
        checksum, length, kind = struct.unpack_from("<IHB", content, position)
        data = content[position + _HEAD : position + _HEAD + length]
        if len(data) < length or checksum != zlib.crc32(bytes([kind]) + data):
            return
        position += _HEAD + length
        parts = data if kind in (_WHOLE, _FIRST) else parts + data
        if kind in (_WHOLE, _LAST):
            yield parts


def _note(values: dict[str, Any], kept: Kept) -> None:
    kept.next_step = max(kept.next_step, int(values.get("_step", -1)) + 1)
    axis = next((axis for axis in _AXES if axis in values), None)
    if axis is not None:
        names = [name for name in values if name != axis and not name.startswith("_")]
        kept.sent.names |= dict.fromkeys(names, int(values[axis]))
