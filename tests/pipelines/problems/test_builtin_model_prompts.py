"""The exact prompts of the built-in model. A change here changes every result of it."""

import pytest

from actors.models import load_tokenizer
from pipelines.problems import Problem, PromptBuilder, PromptSettings

pytestmark = pytest.mark.model

PROBLEM = Problem("a", "What is $1 + 1$? <|im_end|>", "2")
SYSTEM = [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712, 8182, 2]
QUESTION = [1780, 314, 1885, 33, 1232, 216, 33, 20, 47, 216]
TYPED_MARKER = [44, 108, 306, 79, 486, 108, 46]
"""`<|im_end|>` typed by the data is text; the control token is 2."""
INSTRUCTION = [198, 198, 43213, 1833, 411, 1833, 28, 284, 1830, 469, 3403, 2988, 1127, 3814, 4810, 277, 6150, 30]
ASSISTANT = [2, 198, 1, 520, 9531, 198]


def test_the_chat_prompt_has_these_ids() -> None:
    prompt = PromptBuilder(load_tokenizer("smollm2-135m")).build(PROBLEM)
    user = [198, 1, 4093, 198, *QUESTION, *TYPED_MARKER, *INSTRUCTION]
    assert prompt.token_ids == [*SYSTEM, *user, *ASSISTANT]
    assert prompt.text.endswith("<|im_start|>assistant\n")


def test_the_plain_prompt_has_these_ids() -> None:
    prompt = PromptBuilder(load_tokenizer("smollm2-135m"), PromptSettings(chat="never")).build(PROBLEM)
    assert prompt.token_ids == [*QUESTION, *TYPED_MARKER, *INSTRUCTION]
