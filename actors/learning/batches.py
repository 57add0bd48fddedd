"""Cutting a step's sequences into micro-batches within a budget of tokens.

Completions of one prompt share a line: the prompt is computed once, and each completion sees it and itself. Lines are
sorted by length and padded on the right. A line of one sequence needs no mask, because causality alone keeps its tokens
from seeing padding on their right. Which tokens are the completion's follows from lengths: ids are never looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

PADDING = 0
"""Any id of the vocabulary would do."""

PROMPT = 0
"""Segment of a prompt's tokens; a line's completions are the segments from 1."""

OUTSIDE = -1
"""Segment of padding."""

HIDDEN = torch.finfo(torch.bfloat16).min
"""Added to the attention scores of tokens that must not be seen; the lowest that no float type turns into -inf."""

Line = tuple[int, ...]
"""Numbers of the sequences that share a line; they have the same prompt."""


@dataclass(frozen=True, slots=True)
class Row:
    """A prompt and its continuation. Only the continuation's tokens are scored."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.prompt_ids) + len(self.completion_ids)


class MicroBatch(NamedTuple):
    """B lines of T tokens with S sequences and N completion tokens in all, sequence after sequence."""

    rows: tuple[int, ...]
    """(S) which rows of the step these are."""
    input_ids: Tensor
    """(B, T) int64."""
    positions: Tensor
    """(B, T) int64: of each token in its own sequence."""
    visible: Tensor | None
    """(B, 1, T, T) float32, to be added to attention scores; None where every line holds one sequence."""
    sources: Tensor
    """(N,) int64: the place in the flattened (B * T) that predicts each completion token."""
    targets: Tensor
    """(N,) int64: the completion tokens."""
    sequence: Tensor
    """(N,) int64: which of the S sequences each belongs to, in rising order."""


def lines_of(rows: Sequence[Row], shared_tokens: int) -> list[Line]:
    """Put rows of one prompt on a line as long as it has at most `shared_tokens`; with 0 every row has its own."""
    lines: list[list[int]] = []
    open_lines: dict[tuple[int, ...], tuple[list[int], int]] = {}
    for index, row in enumerate(rows):
        line, length = open_lines.get(row.prompt_ids, ([], len(row.prompt_ids)))
        if not line or length + len(row.completion_ids) > shared_tokens:
            line, length = [], len(row.prompt_ids)
            lines.append(line)
        line.append(index)
        open_lines[row.prompt_ids] = line, length + len(row.completion_ids)
    return [tuple(line) for line in lines]


def line_length(rows: Sequence[Row], line: Line) -> int:
    return len(rows[line[0]].prompt_ids) + sum(len(rows[index].completion_ids) for index in line)


def cut(rows: Sequence[Row], token_budget: int, shared_tokens: int) -> list[list[Line]]:
    """Part `rows` into micro-batches of at most `token_budget` tokens, padding included.

    Longest lines first, so that memory is seen to be too small at once. A line above the budget stands alone.
    """
    lines = lines_of(rows, min(shared_tokens, token_budget))
    cuts: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: (-line_length(rows, line), line)):
        if cuts and (len(cuts[-1]) + 1) * line_length(rows, cuts[-1][0]) <= token_budget:
            cuts[-1].append(line)
        else:
            cuts.append([line])
    return cuts


def assemble(rows: Sequence[Row], lines: Sequence[Line], device: torch.device) -> MicroBatch:
    """Lay `lines` of `rows` into one micro-batch on `device`."""
    width = max(line_length(rows, line) for line in lines)
    input_ids = torch.full((len(lines), width), PADDING, dtype=torch.int64)
    positions = torch.arange(width).repeat(len(lines), 1)
    segments = torch.full((len(lines), width), OUTSIDE)
    sources, targets, lengths = [], [], []
    for place, line in enumerate(lines):
        prompt = rows[line[0]].prompt_ids
        input_ids[place, : len(prompt)] = torch.tensor(prompt)
        segments[place, : len(prompt)] = PROMPT
        start = len(prompt)
        for segment, index in enumerate(line, start=PROMPT + 1):
            completion = rows[index].completion_ids
            end = start + len(completion)
            input_ids[place, start:end] = torch.tensor(completion, dtype=torch.int64)
            positions[place, start:end] = torch.arange(len(prompt), len(prompt) + len(completion))
            segments[place, start:end] = segment
            # The prompt's last token predicts a completion's first, wherever on the line that stands.
            before = torch.arange(start - 1, end - 1)
            before[:1] = len(prompt) - 1
            sources.append(place * width + before)
            targets.append(torch.tensor(completion, dtype=torch.int64))
            lengths.append(len(completion))
            start = end
    return MicroBatch(
        rows=tuple(index for line in lines for index in line),
        input_ids=input_ids.to(device),
        positions=positions.to(device),
        visible=_visible(segments).to(device) if any(len(line) > 1 for line in lines) else None,
        sources=torch.cat(sources).to(device),
        targets=torch.cat(targets).to(device),
        sequence=torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)).to(device),
    )


def padding_share(rows: Sequence[Row], cuts: Sequence[Sequence[Line]]) -> float:
    """The share of the tokens computed that is padding."""
    lengths = [[line_length(rows, line) for line in lines] for lines in cuts]
    computed = sum(len(each) * max(each) for each in lengths)
    return 1 - sum(map(sum, lengths)) / computed if computed else 0.0


def _visible(segments: Tensor) -> Tensor:
    """A token sees what comes before it on its line if that is the prompt or of its own completion."""
    viewer, viewed = segments[:, :, None], segments[:, None, :]
    allowed = ((viewed == PROMPT) | (viewed == viewer)).tril()
    return torch.zeros(allowed.shape).masked_fill(~allowed, HIDDEN).unsqueeze(1)
