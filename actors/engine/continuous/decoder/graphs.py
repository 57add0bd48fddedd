"""Decode steps on a GPU as recorded graphs: one launch a step in place of hundreds."""

from dataclasses import dataclass

import torch
from torch import Tensor

from actors.engine.continuous.attention.varlen import Lengths, VarlenAttention
from actors.engine.continuous.decoder import Decoder
from actors.engine.continuous.step import Step

SMALL_ROWS = (1, 2, 4, 8)
ROW_STEP = 16
FIRST_KEYS = 512
WARM_UPS = 2


@dataclass(frozen=True, slots=True)
class _Recorded:
    graph: torch.cuda.CUDAGraph
    step: Step
    lengths: Lengths
    logits: Tensor


class GraphDecoder:
    """Replays `decoder` for steps in which every row is one token, at most `most_rows` of them.

    A graph holds for a number of rows and a bound on the context, both rounded up: every number that a kernel reads is
    part of its key. Rows that fill it up write to, and read, the spare block of the pool. Weights are recorded by
    address, so `update` must change them in place, and does.
    """

    def __init__(self, decoder: Decoder, attention: VarlenAttention, most_rows: int) -> None:
        self.name = f"{decoder.name}, recorded"
        self._decoder = decoder
        self._attention = attention
        self._most_rows = most_rows
        self._recorded: dict[tuple[int, int], _Recorded] = {}
        self._memory = torch.cuda.graph_pool_handle()
        self.update = decoder.update

    def forward(self, step: Step) -> Tensor:
        """(S, V) logits of the wanted rows."""
        longest = max(span[2] for span in step.spans)
        if len(step.spans) != step.tokens or len(step.wanted) != step.tokens or step.tokens > self._most_rows:
            return self._decoder.forward(step)
        rows, keys = rows_bucket(step.tokens), keys_bucket(longest)
        if (rows, keys) not in self._recorded:
            self._recorded[rows, keys] = self._record(rows, keys)
        recorded = self._recorded[rows, keys]
        self._fill(recorded, step)
        recorded.graph.replay()
        return recorded.logits[: step.tokens].clone()

    def _fill(self, recorded: _Recorded, step: Step) -> None:
        count, spare = step.tokens, self._attention.tokens
        recorded.step.ids[:count] = step.ids
        recorded.step.positions[:count] = step.positions
        recorded.step.positions[count:] = 0
        recorded.lengths.slots[:count] = step.slots
        recorded.lengths.slots[count:] = spare
        recorded.lengths.key_starts[:count] = step.sequences[:, 5]
        recorded.lengths.key_starts[count:] = spare
        recorded.lengths.keys_used[:count] = step.sequences[:, 2]
        recorded.lengths.keys_used[count:] = 1

    def _record(self, rows: int, keys: int) -> _Recorded:
        device, spare = self._attention.keys[0].device, self._attention.tokens
        row = torch.arange(rows + 1, dtype=torch.int32, device=device)
        step = Step(
            ids=torch.zeros(rows, dtype=torch.int64, device=device),
            positions=torch.zeros(rows, dtype=torch.int64, device=device),
            slots=torch.full((rows,), -1, dtype=torch.int32, device=device),
            sequences=torch.zeros((rows, 6), dtype=torch.int32, device=device),
            wanted=row[:-1].long(),
            spans=[(index, 1, 1, 0, 0, spare) for index in range(rows)],
        )
        lengths = Lengths(
            slots=torch.full((rows,), spare, dtype=torch.int64, device=device),
            query_starts=row,
            key_starts=torch.full((rows + 1,), spare, dtype=torch.int32, device=device),
            keys_used=torch.ones(rows, dtype=torch.int32, device=device),
            most_queries=1,
            most_keys=keys,
        )
        self._attention.use(step, lengths)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                self._decoder.forward(step)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._memory):
            logits = self._decoder.forward(step)
        return _Recorded(graph, step, lengths, logits)


def rows_bucket(rows: int) -> int:
    """`rows`, rounded up to one of 1, 2, 4, 8, 16, 32, 48, ..."""
    return next((bucket for bucket in SMALL_ROWS if rows <= bucket), -(-rows // ROW_STEP) * ROW_STEP)


def keys_bucket(keys: int) -> int:
    """`keys`, rounded up to 512 times a power of two."""
    bucket = FIRST_KEYS
    while bucket < keys:
        bucket *= 2
    return bucket
