"""Prompts by their exact token ids, with small real tokenizers: one id a byte, special tokens from 256 on."""

from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from pipelines.problems import (
    ContextCheck,
    Problem,
    Prompt,
    PromptBuilder,
    PromptError,
    PromptSettings,
    check_context,
    prompt_hash,
)

BOS, EOS, START, END, THINK = range(256, 261)
SPECIAL = {"<s>": BOS, "</s>": EOS, "<|im_start|>": START, "<|im_end|>": END}

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WRITES_BOS = "{{ bos_token }}{% for m in messages %}[{{ m['content'] }}]{% endfor %}"
WRITES_BOS_TWICE = "{{ bos_token }}" + WRITES_BOS
THINKING = CHATML + "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
DATED = "  {% if strftime_now is defined %}\n{{ strftime_now('%d %b %Y') }} {{ messages[0]['content'] }}{% endif %}"
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}x"

PLAIN = PromptSettings(template="Q: {problem}")


def byte_symbols() -> dict[str, int]:
    """The symbols of byte-level tokenizers, each with its byte as id."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


def tokenizer(
    chat_template: Any = None,
    *,
    adds_bos: bool = False,
    adds_eos: bool = False,
    pad: str | None = None,
    **settings: Any,
) -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE(vocab=byte_symbols(), merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(list(SPECIAL))
    backend.add_tokens([AddedToken("<think>", normalized=False)])
    if adds_bos or adds_eos:
        single = "<s> " * adds_bos + "$A" + " </s>" * adds_eos
        backend.post_processor = processors.TemplateProcessing(
            single=single, pair=single + " $B", special_tokens=[("<s>", BOS), ("</s>", EOS)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<s>",
        eos_token="</s>",
        additional_special_tokens=["<|im_start|>", "<|im_end|>"],
        chat_template=chat_template,
        **({"pad_token": pad} if pad else {}),
        **settings,
    )


def problem(text: str = "1+1?") -> Problem:
    return Problem("p/1", text, "2")


def ids(built_with: PreTrainedTokenizerFast, settings: PromptSettings, text: str = "1+1?") -> list[int]:
    return PromptBuilder(built_with, settings).build(problem(text)).token_ids


# Golden ids


def test_a_plain_prompt_is_the_template_with_the_problem_in_it() -> None:
    assert ids(tokenizer(), PLAIN) == [*b"Q: 1+1?"]


def test_a_tokenizer_that_adds_bos_adds_it_once() -> None:
    assert ids(tokenizer(adds_bos=True), PLAIN) == [BOS, *b"Q: 1+1?"]
    assert ids(tokenizer(adds_bos=True), PromptSettings(template="<s>Q: {problem}")) == [BOS, *b"Q: 1+1?"]


def test_a_plain_template_may_write_bos_for_a_tokenizer_that_adds_none() -> None:
    assert ids(tokenizer(), PromptSettings(template="<s><s>{problem}")) == [BOS, *b"1+1?"]


def test_no_eos_is_put_behind_a_plain_prompt() -> None:
    assert ids(tokenizer(adds_bos=True, adds_eos=True), PLAIN) == [BOS, *b"Q: 1+1?"]
    assert ids(tokenizer(adds_eos=True), PLAIN) == [*b"Q: 1+1?"]


def test_a_chat_prompt_ends_with_the_header_of_the_assistant() -> None:
    expected = [START, *b"user\nQ: 1+1?", END, *b"\n", START, *b"assistant\n"]
    assert ids(tokenizer(CHATML), PLAIN) == expected


def test_a_system_message_comes_first() -> None:
    settings = PromptSettings(template="{problem}", system="Be brief.")
    expected = [START, *b"system\nBe brief.", END, *b"\n", START, *b"user\n1+1?", END, *b"\n", START, *b"assistant\n"]
    assert ids(tokenizer(CHATML), settings) == expected
    assert ids(tokenizer(adds_bos=True), settings) == [BOS, *b"Be brief.\n\n1+1?"]


@pytest.mark.parametrize("template", [WRITES_BOS, WRITES_BOS_TWICE])
@pytest.mark.parametrize("adds_bos", [False, True])
def test_a_chat_template_that_writes_bos_leaves_one(template: str, adds_bos: bool) -> None:
    built_with = tokenizer(template, adds_bos=adds_bos, adds_eos=adds_bos)
    assert ids(built_with, PLAIN) == [BOS, *b"[Q: 1+1?]"]


def test_a_chat_template_without_bos_gets_none() -> None:
    assert ids(tokenizer(CHATML, adds_bos=True), PLAIN)[0] == START


def test_chat_never_ignores_the_chat_template() -> None:
    built_with = tokenizer(CHATML, adds_bos=True)
    assert ids(built_with, PromptSettings(template="Q: {problem}", chat="never")) == [BOS, *b"Q: 1+1?"]


def test_thinking_is_passed_to_a_template_that_knows_it() -> None:
    plain = [START, *b"user\n1+1?", END, *b"\n", START, *b"assistant\n"]
    off = [*plain, THINK, *b"</think>"]
    for switch, expected in ((None, plain), (True, plain), (False, off)):
        assert ids(tokenizer(THINKING), PromptSettings(template="{problem}", enable_thinking=switch)) == expected


def test_a_named_default_template_is_used() -> None:
    built_with = tokenizer({"default": WRITES_BOS, "tool_use": CHATML})
    assert ids(built_with, PLAIN) == [BOS, *b"[Q: 1+1?]"]


def test_the_date_in_a_template_does_not_change_overnight() -> None:
    assert ids(tokenizer(DATED), PromptSettings(template="{problem}")) == [*b"01 Jan 2025 1+1?"]
    assert ids(tokenizer(DATED), PromptSettings(template="{problem}", today="2026-02-03")) == [*b"03 Feb 2026 1+1?"]


# Text that looks like something else


def test_special_tokens_typed_in_a_problem_stay_text() -> None:
    text = "a<|im_end|><s></s>b"
    assert ids(tokenizer(CHATML), PLAIN, text) == [
        START, *b"user\nQ: a<|im_end|><s></s>b", END, *b"\n", START, *b"assistant\n"
    ]  # fmt: skip
    assert ids(tokenizer(adds_bos=True), PLAIN, text) == [BOS, *b"Q: a<|im_end|><s></s>b"]


def test_a_plain_template_may_write_control_tokens_around_the_problem() -> None:
    settings = PromptSettings(template="<|im_start|>{problem}<|im_end|>\n")
    assert ids(tokenizer(), settings, "x<|im_end|>") == [START, *b"x<|im_end|>", END, *b"\n"]


@pytest.mark.parametrize("chat_template", [None, CHATML])
def test_braces_quotes_and_template_syntax_survive(chat_template: str | None) -> None:
    text = "$\\frac{1}{2}$ {{ x }} {% if %} {problem} 'q' \"r\" \\n é 😀 {# c #}\nend"
    template = "{{{problem}}} \\boxed{} '\"' {% raw %} ß 😀 \\ \n{problem}\n"
    prompt = PromptBuilder(tokenizer(chat_template), PromptSettings(template=template)).build(problem(text))
    expected = template.replace("{problem}", "\0").replace("\0", text)
    assert expected in prompt.text
    assert expected.encode() in bytes(each for each in prompt.token_ids if each < 256)
    assert chat_template is not None or prompt.token_ids == [*expected.encode()]


def test_the_default_template_asks_for_a_box() -> None:
    expected = b"1+1?\n\nReason step by step, and put your final answer within \\boxed{}."
    assert ids(tokenizer(), PromptSettings()) == [*expected]


def test_the_text_of_a_prompt_is_what_the_ids_spell() -> None:
    built_with = tokenizer(CHATML, pad="</s>")
    prompt = PromptBuilder(built_with, PLAIN).build(problem())
    assert prompt.text == built_with.decode(prompt.token_ids)


# Settings of the tokenizer that must not matter


@pytest.mark.parametrize("chat_template", [None, CHATML, WRITES_BOS])
def test_padding_side_and_pad_token_have_no_effect(chat_template: str | None) -> None:
    variants = [
        tokenizer(chat_template, adds_bos=True, pad=pad, padding_side=side)
        for side in ("left", "right")
        for pad in (None, "</s>", "<|im_end|>")
    ]
    assert len({tuple(ids(variant, PLAIN)) for variant in variants}) == 1


def test_truncation_and_padding_saved_with_a_tokenizer_have_no_effect() -> None:
    built_with = tokenizer(CHATML, pad="</s>", model_max_length=4)
    expected = ids(built_with, PLAIN)
    built_with.backend_tokenizer.enable_truncation(4)
    built_with.backend_tokenizer.enable_padding(length=100)
    assert ids(built_with, PLAIN) == expected


# Errors


def test_chat_always_needs_a_chat_template() -> None:
    built_with = tokenizer(name_or_path="models/base")
    with pytest.raises(PromptError, match=r"the tokenizer of models/base has no chat template.* use chat 'auto'"):
        PromptBuilder(built_with, PromptSettings(chat="always"))


@pytest.mark.parametrize(("chat_template", "kind"), [(CHATML, "chat template"), (None, "plain prompt")])
def test_thinking_that_the_template_does_not_know_is_an_error(chat_template: str | None, kind: str) -> None:
    with pytest.raises(PromptError, match=f"enable_thinking is False, but the {kind} .* leave it out"):
        PromptBuilder(tokenizer(chat_template), PromptSettings(enable_thinking=False))


def test_several_templates_without_a_default_are_an_error() -> None:
    with pytest.raises(PromptError, match="multiple chat templates"):
        PromptBuilder(tokenizer({"rag": CHATML, "tool_use": CHATML}), PLAIN)


def test_a_template_that_refuses_a_system_message_says_so_and_names_the_problem() -> None:
    builder = PromptBuilder(tokenizer(NO_SYSTEM), PromptSettings(system="s"))
    with pytest.raises(PromptError, match=r"no prompt for p/1 .*System role not supported; some templates take no"):
        builder.build(problem())


def test_an_empty_prompt_is_an_error() -> None:
    with pytest.raises(PromptError, match="the prompt for p/1 is empty"):
        PromptBuilder(tokenizer(), PromptSettings(template="{problem}")).build(problem(""))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"template": "Solve it."}, r"has no \{problem\}"),
        ({"chat": "sometimes"}, "must be one of auto, always, never"),
        ({"today": "yesterday"}, "write a date such as 2025-01-01"),
    ],
)
def test_settings_that_do_not_exist_are_errors(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(PromptError, match=reason):
        PromptSettings(**settings)


# Hashes and lengths


def test_the_prompt_hash_tells_prompts_apart() -> None:
    assert prompt_hash([1, 23]) != prompt_hash([12, 3]) != prompt_hash([1, 2, 3])
    assert prompt_hash([1, 2, 3]) == prompt_hash((1, 2, 3)) == "8a6ae15122001229"
    assert len(prompt_hash([])) == 16


def test_the_chat_template_hash_belongs_to_the_template_in_use() -> None:
    assert PromptBuilder(tokenizer(), PLAIN).chat_template_hash is None
    assert PromptBuilder(tokenizer(CHATML), PromptSettings(chat="never")).chat_template_hash is None
    hashes = {PromptBuilder(tokenizer(each), PLAIN).chat_template_hash for each in (CHATML, CHATML, WRITES_BOS)}
    assert len(hashes) == 2 and None not in hashes


def test_context_check_tells_no_room_from_cut_short() -> None:
    prompts = [Prompt("", [0] * length) for length in (1, 90, 91, 99, 100, 101)]
    assert check_context(prompts, 100, 10) == ContextCheck(no_room=[4, 5], cut_short=[2, 3])
