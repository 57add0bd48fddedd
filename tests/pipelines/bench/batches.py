"""A batch of rows that decode a token a step, refilled at once: what a child's chunks look like."""

from collections.abc import Sequence

from pipelines.bench.estimates import Chunk

STEP_S, ROW_S = 0.02, 0.001


def simulated(lengths: Sequence[int], batch_size: int) -> list[Chunk]:
    """Chunks that end with every quarter of a batch; a step takes STEP_S and ROW_S a row."""
    waiting = list(lengths)
    live: list[int] = []
    chunks: list[Chunk] = []
    tokens, seconds, ended = 0, 0.0, 0
    while waiting or live:
        while waiting and len(live) < batch_size:
            live.append(waiting.pop(0))
        tokens += len(live)
        seconds += STEP_S + ROW_S * len(live)
        ended += sum(left == 1 for left in live)
        live = [left - 1 for left in live if left > 1]
        if ended >= max(1, batch_size // 4) or not (waiting or live):
            chunks.append((tokens, seconds, bool(waiting)))
            tokens, seconds, ended = 0, 0.0, 0
    return chunks
