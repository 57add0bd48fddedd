"""A new engine must say what the plain model says, before it may say anything to a user."""

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from actors.engine.continuous.attention.interface import UnsupportedModelError
from actors.engine.continuous.decoder import Decoder
from actors.engine.continuous.runs import BLOCK, Run
from actors.engine.continuous.scheduler import Piece
from actors.engine.continuous.sequence import Sequence
from actors.engine.continuous.step import build_step

TEXT = (
    "Let x be a positive integer. Find the sum of all numbers n such that n squared plus three is divisible by seven."
)
TOKENS = 24
PIECES = ((0, 9), (9, 23), (23, 24))
"""A prompt in two pieces, and one token of decoding."""

TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-3}
ROUNDED_TOLERANCE = 0.15
"""Largest relative difference of logits; a wrong position, mask or scale makes it about 1."""


def check_tokens(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """`TOKENS` ids of ordinary text: over tokens at random, rounding alone moves logits by a third of their spread."""
    ids = tokenizer.encode(TEXT, add_special_tokens=False)
    return [ids[index % len(ids)] for index in range(TOKENS)]


@torch.inference_mode()
def plain_logits(model: PreTrainedModel, tokens: list[int]) -> Tensor:
    """(3, V): what the model, untouched, says after each of the pieces."""
    ids = torch.tensor([tokens], device=model.device)
    positions = torch.arange(TOKENS, device=model.device).unsqueeze(0)
    logits = model(ids, attention_mask=torch.ones_like(ids), position_ids=positions, use_cache=False).logits[0]
    return logits[[end - 1 for _, end in PIECES]].float()


def check_decoder(decoder: Decoder, tokens: list[int], expected: Tensor, dtype: torch.dtype, least_rows: int) -> None:
    """Raise UnsupportedModelError unless `decoder` comes to the `expected` logits by pieces. The pool is unused yet."""
    sequence = Sequence(0, 0, TOKENS, 1, own=Run(0, 2 * BLOCK))
    found = []
    for first, end in PIECES:
        step = build_step([Piece(sequence, first, end - first, True)], {0: tokens}, expected.device, least_rows)
        found.append(decoder.forward(step)[0].float())
    error = (torch.stack(found) - expected).norm(dim=-1) / (expected - expected.mean(dim=-1, keepdim=True)).norm(dim=-1)
    worst = float(error.max())
    if not worst <= TOLERANCE.get(dtype, ROUNDED_TOLERANCE):
        raise UnsupportedModelError(
            f"its logits through the continuous engine differ from transformers' own by {worst:.1%}"
        )
