"""Cutting a step's rows into micro-batches: sorted by length, padded on the right, within a budget of tokens.

Causality alone keeps real tokens from seeing padding on their right, so no mask is needed, and which tokens are the
completion's follows from lengths: ids are never looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

PADDING = 0
"""Any id of the vocabulary would do."""


@dataclass(frozen=True, slots=True)
class Row:
    """A prompt and its continuation. Only the continuation's tokens are scored."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.prompt_ids) + len(self.completion_ids)


class MicroBatch(NamedTuple):
    """B rows of T tokens with N completion tokens in all, row after row."""

    rows: tuple[int, ...]
    """Which rows of the step these are."""
    input_ids: Tensor
    """(B, T) int64."""
    sources: Tensor
    """(N,) int64: the place in the flattened (B * T) that predicts each completion token."""
    targets: Tensor
    """(N,) int64: the completion tokens."""
    sequence: Tensor
    """(N,) int64: which of the B rows each belongs to, in rising order."""


def cut(rows: Sequence[Row], token_budget: int) -> list[list[int]]:
    """Part the numbers of `rows` into micro-batches of at most `token_budget` tokens, padding included.

    Longest first, so that memory is seen to be too small at once. A row above the budget stands alone.
    """
    order = sorted(range(len(rows)), key=lambda index: (-len(rows[index]), index))
    cuts: list[list[int]] = []
    for index in order:
        if cuts and (len(cuts[-1]) + 1) * len(rows[cuts[-1][0]]) <= token_budget:
            cuts[-1].append(index)
        else:
            cuts.append([index])
    return cuts


def assemble(rows: Sequence[Row], chosen: Sequence[int], device: torch.device) -> MicroBatch:
    """Lay the rows numbered `chosen` into one micro-batch on `device`."""
    width = max(len(rows[index]) for index in chosen)
    input_ids = torch.full((len(chosen), width), PADDING, dtype=torch.int64)
    sources, targets, sequence = [], [], []
    for place, index in enumerate(chosen):
        row = rows[index]
        input_ids[place, : len(row)] = torch.tensor(row.prompt_ids + row.completion_ids)
        first = place * width + len(row.prompt_ids) - 1
        sources.append(torch.arange(first, first + len(row.completion_ids)))
        targets.append(torch.tensor(row.completion_ids, dtype=torch.int64))
        sequence.append(torch.full((len(row.completion_ids),), place))
    return MicroBatch(
        rows=tuple(chosen),
        input_ids=input_ids.to(device),
        sources=torch.cat(sources).to(device),
        targets=torch.cat(targets).to(device),
        sequence=torch.cat(sequence).to(device),
    )


def padding_share(rows: Sequence[Row], cuts: Sequence[Sequence[int]]) -> float:
    """The share of the tokens computed that is padding."""
    computed = sum(len(chosen) * max(len(rows[index]) for index in chosen) for chosen in cuts)
    return 1 - sum(map(len, rows)) / computed if computed else 0.0
