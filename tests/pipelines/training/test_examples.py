"""Token ids of prompts and solutions."""

from dataclasses import replace
from typing import Any

import pytest
from transformers import PreTrainedTokenizerBase

from pipelines.problems import Problem, PromptBuilder, PromptError, PromptSettings
from pipelines.training.examples import ExampleSet, examples_of
from tests.actors.engine.tiny import EOS, tiny_tokenizer

PROBLEM = Problem("a", "What is 1 + 1?", "2", solution="It is 2.")
LONG = Problem("b", "What is 2 + 2?", "4", solution="Two and two and two and two less four is 4.")


def built(*problems: Problem, limit: int | None = None, overlong: Any = "drop") -> ExampleSet:
    tokenizer = tiny_tokenizer()
    builder = PromptBuilder(tokenizer, PromptSettings(template="{problem} "))
    prompts = {problem.id: builder.build(problem) for problem in problems}
    return examples_of(problems, prompts, tokenizer, limit, overlong)


def decoded(tokenizer: PreTrainedTokenizerBase, ids: tuple[int, ...]) -> str:
    return str(tokenizer.decode(list(ids)))


def test_an_example_is_the_prompt_of_evaluation_the_solution_and_an_end() -> None:
    tokenizer = tiny_tokenizer()
    (example,) = built(PROBLEM).examples
    prompt = PromptBuilder(tokenizer, PromptSettings(template="{problem} ")).build(PROBLEM)
    assert example.prompt_ids == tuple(prompt.token_ids)
    assert decoded(tokenizer, example.answer_ids) == "It is 2.<eos>"
    assert example.answer_ids.count(EOS) == 1


def test_a_control_token_in_a_solution_is_text() -> None:
    tokenizer = tiny_tokenizer()
    (example,) = built(replace(PROBLEM, solution="It is<eos> 2.")).examples
    assert example.answer_ids.count(EOS) == 1 and example.answer_ids[-1] == EOS
    assert decoded(tokenizer, example.answer_ids[:-1]) == "It is<eos> 2."


@pytest.mark.parametrize("over", [0, 1])
def test_examples_beyond_the_limit_are_dropped_and_named(over: int) -> None:
    (whole,) = built(LONG).examples
    limit = len(whole.prompt_ids) + len(whole.answer_ids) - over
    found = built(PROBLEM, LONG, limit=limit)
    assert found.dropped == (["b"] if over else [])
    assert found.problem_ids == (["a"] if over else ["a", "b"])
    assert found.truncated == []


def test_a_truncated_example_fills_the_limit_and_has_no_end() -> None:
    (whole,) = built(LONG).examples
    limit = len(whole.prompt_ids) + 5
    found = built(LONG, limit=limit, overlong="truncate")
    assert found.examples[0].answer_ids == whole.answer_ids[:5]
    assert (found.truncated, found.dropped) == (["b"], [])


def test_a_prompt_that_fills_the_limit_is_dropped_even_if_others_are_truncated() -> None:
    (whole,) = built(LONG).examples
    found = built(LONG, limit=len(whole.prompt_ids), overlong="truncate")
    assert (found.examples, found.dropped, found.truncated) == ([], ["b"], [])


def test_a_tokenizer_without_an_end_is_refused() -> None:
    tokenizer = tiny_tokenizer(pad_token=None)
    end, tokenizer.eos_token = tokenizer.eos_token, None
    try:
        with pytest.raises(PromptError, match="no end-of-sequence token"):
            examples_of([], {}, tokenizer, None, "drop")
    finally:
        tokenizer.eos_token = end
