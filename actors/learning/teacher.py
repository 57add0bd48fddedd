"""What a teacher would have written at each place of an answer: its most probable tokens."""

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from actors.learning.batches import Row, assemble, cut
from actors.learning.logprobs import CHUNK_BYTES
from actors.learning.policy import output_head
from actors.learning.rollouts import TeacherTokens


@torch.no_grad()
def teacher_tokens(model: PreTrainedModel, rows: Sequence[Row], k: int, token_budget: int) -> list[TeacherTokens]:
    """Return, for each row, the `k` most probable tokens before each completion token, with their log-probabilities
    at temperature 1.

    `model` is used as it is, in eval mode and whatever type its weights have. It must share its tokenizer with the
    student. Passes hold at most `token_budget` tokens. Raises ValueError for k below 1 or beyond the vocabulary.
    """
    vocabulary = model.config.get_text_config().vocab_size
    if not 1 <= k <= vocabulary:
        raise ValueError(f"a teacher's k must lie between 1 and its vocabulary of {vocabulary}, got {k}")
    head = output_head(model)
    found: dict[int, TeacherTokens] = {}
    for lines in cut(rows, token_budget, shared_tokens=0):
        batch = assemble(rows, lines, model.device)
        states = model.base_model(input_ids=batch.input_ids, use_cache=False).last_hidden_state
        ids, logprobs = [], []
        for part in states.flatten(0, 1)[batch.sources].split(max(1, CHUNK_BYTES // (4 * vocabulary))):
            top = head(part).float().log_softmax(dim=-1).topk(k, dim=-1)
            ids += top.indices.tolist()
            logprobs += top.values.tolist()
        start = 0
        for index in batch.rows:
            end = start + len(rows[index].completion_ids)
            found[index] = TeacherTokens(tuple(map(tuple, ids[start:end])), tuple(map(tuple, logprobs[start:end])))
            start = end
    return [found[index] for index in range(len(rows))]
