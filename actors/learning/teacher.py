"""What a teacher would have written at each place of an answer: its most probable tokens."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from transformers import PreTrainedModel

from actors.learning.batches import Row, assemble, cut
from actors.learning.logprobs import CHUNK_BYTES
from actors.learning.policy import output_head
from actors.learning.rollouts import Example, TeacherTokens


@torch.no_grad()
def teacher_tokens(
    model: PreTrainedModel, rows: Sequence[Row], k: int, token_budget: int, vocabulary: int | None = None
) -> list[TeacherTokens]:
    """Return, for each row, the `k` most probable tokens before each completion token, with their log-probabilities
    at temperature 1.

    `model` is used as it is, in eval mode and whatever type its weights have. It must share its tokenizer with the
    student; ids from `vocabulary` on, which only pad the teacher's to a round size, are taken as impossible. Passes hold
    at most `token_budget` tokens. Raises ValueError for k below 1 or beyond the vocabulary.
    """
    own = model.config.get_text_config().vocab_size
    vocabulary = min(own, vocabulary or own)
    if not 1 <= k <= vocabulary:
        raise ValueError(f"a teacher's k must lie between 1 and its vocabulary of {vocabulary}, got {k}")
    head = output_head(model)
    found: dict[int, TeacherTokens] = {}
    for lines in cut(rows, token_budget, shared_tokens=0):
        batch = assemble(rows, lines, model.device)
        states = model.base_model(input_ids=batch.input_ids, use_cache=False).last_hidden_state
        ids, logprobs = [], []
        for part in states.flatten(0, 1)[batch.sources].split(max(1, CHUNK_BYTES // (4 * vocabulary))):
            top = head(part)[:, :vocabulary].float().log_softmax(dim=-1).topk(k, dim=-1)
            ids += top.indices.tolist()
            logprobs += top.values.tolist()
        start = 0
        for index in batch.rows:
            end = start + len(rows[index].completion_ids)
            found[index] = TeacherTokens(tuple(map(tuple, ids[start:end])), tuple(map(tuple, logprobs[start:end])))
            start = end
    return [found[index] for index in range(len(rows))]


def taught(
    model: PreTrainedModel, examples: Sequence[Example], k: int, token_budget: int, vocabulary: int
) -> list[Example]:
    """The examples with the tokens of the teacher `model` at each place of their answers; see `teacher_tokens`."""
    rows = [Row(example.prompt_ids, example.answer_ids) for example in examples]
    tokens = teacher_tokens(model, rows, k, token_budget, vocabulary)
    return [replace(example, teacher=each) for example, each in zip(examples, tokens, strict=True)]
