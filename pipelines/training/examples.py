"""From problems with solutions to the token ids that a learner takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from actors.learning import Example
from pipelines.problems import Problem, Prompt, PromptError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

BATCH = 1000
"""Solutions that are tokenized together."""


@dataclass(frozen=True, slots=True)
class ExampleSet:
    """`examples` in the order of their problems; `problem_ids` beside them. The other two name those that were too long."""

    examples: list[Example]
    problem_ids: list[str]
    dropped: list[str]
    truncated: list[str]


def examples_of(
    problems: Sequence[Problem],
    prompts: Mapping[str, Prompt],
    tokenizer: "PreTrainedTokenizerBase",
    limit: int | None,
    overlong: Literal["drop", "truncate"],
) -> ExampleSet:
    """The prompt that evaluation asks with, then the solution and the end-of-sequence token.

    Special tokens that stand in a solution as text are encoded as text. Beyond `limit` tokens, prompt included, an
    example is dropped, or truncated if there is room for at least one token of its solution; it then has no end, as the
    solution had not ended. Raises PromptError for a tokenizer without an end-of-sequence token.
    """
    end = tokenizer.eos_token_id
    if not isinstance(end, int):
        raise PromptError(
            "the tokenizer has no end-of-sequence token, so the model could not learn to stop: give it one"
        )
    found = ExampleSet([], [], [], [])
    for first in range(0, len(problems), BATCH):
        part = problems[first : first + BATCH]
        texts = [problem.solution or "" for problem in part]
        encoded = tokenizer(texts, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        for problem, answer in zip(part, encoded, strict=True):
            prompt = tuple(prompts[problem.id].token_ids)
            ids = (*answer, end)
            room = len(ids) if limit is None else limit - len(prompt)
            if len(ids) > room:
                if overlong == "drop" or room < 1:
                    found.dropped.append(problem.id)
                    continue
                found.truncated.append(problem.id)
            found.examples.append(Example(prompt, ids[:room]))
            found.problem_ids.append(problem.id)
    return found
