"""Prompts: the exact token ids that a model is asked to continue."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

from pipelines.problems.problem import Problem

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PLACE = "{problem}"
DEFAULT_TEMPLATE = PLACE + "\n\nReason step by step, and put your final answer within \\boxed{}."
DATE_CODES = ("%-d", "%d", "%m", "%Y", "%y", "%b", "%B", "%a", "%A", "%j", "%H", "%M", "%S")
CHAT_MODES = ("auto", "always", "never")


class PromptError(ValueError):
    """A prompt cannot be built with these settings and this tokenizer."""


@dataclass(frozen=True, slots=True)
class PromptSettings:
    """How a problem becomes a prompt.

    Every "{problem}" in `template` is replaced by the problem; all other braces stay as they are. `system` is a system
    message (in a plain prompt, text in front, with a blank line). `enable_thinking` goes to chat templates that know
    it; None leaves the choice to the template. `chat`: "auto" uses the tokenizer's chat template where there is one,
    "always" insists on it, "never" writes plain text. `today` is the date for templates that print the current one: a
    fixed one, since a prompt must not change overnight.

    Raises `PromptError` for a template without "{problem}" and for values that do not exist.
    """

    template: str = DEFAULT_TEMPLATE
    system: str | None = None
    enable_thinking: bool | None = None
    chat: Literal["auto", "always", "never"] = "auto"
    today: str = "2025-01-01"

    def __post_init__(self) -> None:
        if PLACE not in self.template:
            raise PromptError(f"the prompt template {self.template!r} has no {PLACE}; write it where the problem goes")
        if self.chat not in CHAT_MODES:
            raise PromptError(f"prompt chat is {self.chat!r}; it must be one of {', '.join(CHAT_MODES)}")
        try:
            date.fromisoformat(self.today)
        except ValueError:
            raise PromptError(f"prompt today is {self.today!r}; write a date such as 2025-01-01") from None


@dataclass(frozen=True, slots=True)
class Prompt:
    """`token_ids` is what the model gets; `text` is the same for people, without a BOS that only the ids have."""

    text: str
    token_ids: list[int]


@dataclass(frozen=True, slots=True)
class ContextCheck:
    """Positions in a list of prompts: `no_room` cannot start at all, `cut_short` may end before `max_new_tokens`."""

    no_room: list[int]
    cut_short: list[int]


class PromptBuilder:
    """Builds prompts for one tokenizer of transformers.

    * A chat template is the authority on its prompt: what it writes is tokenized without special tokens on top, ended
      by its header for the assistant. A plain prompt gets in front what the tokenizer normally puts there (BOS, once).
      Neither gets the EOS that some tokenizers put behind a text.
    * Special tokens that stand in a problem or a system message as text, such as `<|im_end|>`, are encoded as text.
      Only the chat template, or a plain template in the settings, can write control tokens.
    * No padding and no truncation, so `padding_side` and a missing pad token have no effect.

    Raises `PromptError` at once when settings and tokenizer do not fit each other.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", settings: PromptSettings | None = None) -> None:
        self._tokenizer = tokenizer
        self._settings = settings or PromptSettings()
        self._model = getattr(tokenizer, "name_or_path", "") or "this model"
        self._chat_template = None if self._settings.chat == "never" else self._find_chat_template()
        if self._settings.chat == "always" and self._chat_template is None:
            raise PromptError(
                f"the tokenizer of {self._model} has no chat template, and prompt chat is 'always'; "
                "use chat 'auto' or 'never', or a model with a chat template"
            )
        self._variables = self._template_variables()
        self._dated_template = self._chat_template
        if self._chat_template is not None and "strftime_now" in self._chat_template:
            self._dated_template = _fixed_date(self._settings.today) + self._chat_template
        self._prefix = [] if self.uses_chat_template else _leading_special_ids(tokenizer)

    @property
    def uses_chat_template(self) -> bool:
        """Whether prompts go through the tokenizer's chat template."""
        return self._chat_template is not None

    @property
    def chat_template_hash(self) -> str | None:
        """The first 16 hex digits of the SHA-256 of the chat template in use; None for plain prompts."""
        return None if self._chat_template is None else _short_hash(self._chat_template.encode("utf-8"))

    def build(self, problem: Problem) -> Prompt:
        """The prompt for `problem`. Raises `PromptError` naming the problem when the tokenizer or template refuses."""
        from jinja2 import TemplateError

        try:
            prompt = self._chat_prompt(problem) if self.uses_chat_template else self._plain_prompt(problem)
        except (TemplateError, TypeError, ValueError) as error:
            hint = "; some templates take no system message" if self._settings.system is not None else ""
            raise PromptError(
                f"no prompt for {problem.id} with the tokenizer of {self._model}: {error}{hint}"
            ) from error
        if not prompt.token_ids:
            raise PromptError(f"the prompt for {problem.id} is empty; the model needs at least one token to continue")
        return prompt

    def _chat_prompt(self, problem: Problem) -> Prompt:
        messages = [] if self._settings.system is None else [{"role": "system", "content": self._settings.system}]
        messages.append({"role": "user", "content": self._settings.template.replace(PLACE, problem.problem)})
        rendered = self._tokenizer.apply_chat_template(
            messages, chat_template=self._dated_template, add_generation_prompt=True, tokenize=False, **self._variables
        )
        ids = self._encode(messages, self._dated_template, self._variables)
        return Prompt(str(rendered), _single_bos(ids, self._tokenizer.bos_token_id))

    def _plain_prompt(self, problem: Problem) -> Prompt:
        system = "" if self._settings.system is None else self._settings.system + "\n\n"
        message = {"role": "user", "content": problem.problem}
        ids = self._encode([message], self._plain_template(), {"system": system})
        if ids[: len(self._prefix)] != self._prefix:
            ids = self._prefix + ids
        text = system + self._settings.template.replace(PLACE, problem.problem)
        return Prompt(text, _single_bos(ids, self._tokenizer.bos_token_id))

    def _encode(self, messages: list[dict[str, str]], template: str | None, variables: Mapping[str, Any]) -> list[int]:
        ids: Any = self._tokenizer.apply_chat_template(
            messages,
            chat_template=template,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
            sanitize_control_tokens=True,
            **variables,
        )
        return list(ids)

    def _plain_template(self) -> str:
        """The template of the settings as a chat template, so that both kinds of prompt are made safe in one way."""
        pieces = [_jinja_literal(piece) for piece in self._settings.template.split(PLACE)]
        return "{{ system }}" + "{{ messages[0]['content'] }}".join(pieces)

    def _find_chat_template(self) -> str | None:
        if not getattr(self._tokenizer, "chat_template", None):
            return None
        try:
            return str(self._tokenizer.get_chat_template())
        except ValueError as error:
            raise PromptError(f"the chat templates of {self._model} cannot be used: {error}") from error

    def _template_variables(self) -> dict[str, Any]:
        source = self._chat_template or ""
        variables: dict[str, Any] = {}
        if self._settings.enable_thinking is not None:
            if "enable_thinking" not in source:
                kind = "chat template" if self._chat_template else "plain prompt"
                raise PromptError(
                    f"prompt enable_thinking is {self._settings.enable_thinking}, but the {kind} of {self._model} "
                    "knows no such switch; leave it out (null)"
                )
            variables["enable_thinking"] = self._settings.enable_thinking
        return variables


def prompt_hash(token_ids: Sequence[int]) -> str:
    """The first 16 hex digits of the SHA-256 of the ids; it tells whether a sample came from the same prompt."""
    return _short_hash(",".join(map(str, token_ids)).encode("ascii"))


def check_context(prompts: Sequence[Prompt], context_length: int, max_new_tokens: int) -> ContextCheck:
    """Which prompts leave no room for a single new token, and which leave less than `max_new_tokens`."""
    lengths = [len(prompt.token_ids) for prompt in prompts]
    no_room = [index for index, length in enumerate(lengths) if length >= context_length]
    cut = [index for index, length in enumerate(lengths) if length < context_length < length + max_new_tokens]
    return ContextCheck(no_room, cut)


def _leading_special_ids(tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    """What the tokenizer puts in front of a plain text when it adds special tokens: mostly BOS or nothing."""
    bare = tokenizer.encode("1", add_special_tokens=False)
    full = tokenizer.encode("1", add_special_tokens=True)
    for start in range(len(full) - len(bare) + 1):
        if full[start : start + len(bare)] == bare:
            return list(full[:start])
    return []


def _single_bos(ids: list[int], bos: int | None) -> list[int]:
    while bos is not None and ids[:2] == [bos, bos]:
        ids = ids[1:]
    return ids


def _jinja_literal(text: str) -> str:
    # A Python literal without newlines or unescaped quotes is a Jinja literal of the same string.
    return "{{ " + repr(text) + " }}" if text else ""


def _fixed_date(today: str) -> str:
    """Jinja that hides the clock of transformers, `strftime_now`, behind a macro that knows one day."""
    day = date.fromisoformat(today)
    formatted = "format"
    for code in DATE_CODES:
        text = str(day.day) if code == "%-d" else day.strftime(code)
        formatted += f" | replace({code!r}, {text!r})"
    # The newline belongs to the tag (transformers trims blocks); after it the template starts on a line of its own.
    return "{% macro strftime_now(format) %}{{ " + formatted + " }}{% endmacro %}\n"


def _short_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
