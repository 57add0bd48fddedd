"""One step as tensors, built once and read by every layer."""

from dataclasses import dataclass

import torch
from torch import Tensor

from actors.engine.continuous.scheduler import Piece
from actors.engine.continuous.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Step:
    """All tokens of a step in one row, without padding between sequences. T tokens, N sequences, S of them sample."""

    ids: Tensor
    """(T,) int64."""
    positions: Tensor
    """(T,) int64, each token's place in its sequence."""
    slots: Tensor
    """(T,) int32, the pool's token that takes its key and value; -1: none, they are there already."""
    sequences: Tensor
    """(N, 6) int32: first_row and rows of a sequence in this step, its length with them, and where its context lies:
    prefix_start, prefix_length, own_start."""
    wanted: Tensor
    """(S,) int64, the rows whose logits are wanted."""
    spans: list[tuple[int, ...]]
    """`sequences` as numbers, for what loops over them."""

    @property
    def tokens(self) -> int:
        return len(self.ids)


def build_step(pieces: list[Piece], tokens_of: dict[int, list[int]], device: torch.device, least_rows: int = 1) -> Step:
    """Return the step that runs `pieces`. `tokens_of[ticket]` holds a sequence's ids so far.

    Below `least_rows` tokens, and below as many wanted rows, it is filled up with rows that belong to nobody.
    """
    ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    spans: list[tuple[int, ...]] = []
    wanted: list[int] = []
    for piece in pieces:
        sequence, end = piece.sequence, piece.first + piece.count
        prefix_start = sequence.prefix.run.start if sequence.prefix is not None else 0
        assert sequence.own is not None
        spans.append((len(ids), piece.count, end, prefix_start, sequence.prefix_length, sequence.own.start))
        if piece.count == 1:
            ids.append(tokens_of[sequence.ticket][piece.first])
            positions.append(piece.first)
            slots.append(_slot(sequence, piece.first))
        else:
            ids += tokens_of[sequence.ticket][piece.first : end]
            positions += range(piece.first, end)
            slots += [_slot(sequence, position) for position in range(piece.first, end)]
        if piece.samples:
            wanted.append(len(ids) - 1)
    if wanted:
        wanted += wanted[:1] * (least_rows - len(wanted))
    nobody = [0] * (least_rows - len(ids))
    return Step(
        ids=torch.tensor(ids + nobody).to(device),
        positions=torch.tensor(positions + nobody).to(device),
        slots=torch.tensor(slots + [-1] * len(nobody), dtype=torch.int32).to(device),
        sequences=torch.tensor(spans, dtype=torch.int32).to(device),
        wanted=torch.tensor(wanted, dtype=torch.int64).to(device),
        spans=spans,
    )


def _slot(sequence: Sequence, position: int) -> int:
    """Others may be reading a prefix that is ready: it is not written again."""
    shared = sequence.prefix is not None and sequence.prefix.ready and position < sequence.prefix.length
    return -1 if shared else sequence.place(position)
