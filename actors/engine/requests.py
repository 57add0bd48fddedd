"""What goes into a generation engine and what comes out."""

import math
from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["eos", "stop", "length", "error"]

Key = tuple[str, int]
"""Identity of a sample: (problem id, sample index)."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen. Every field is explicit; a checkpoint's `generation_config.json` has no say.

    Raises ValueError, in the user's words, for a value out of its range.
    """

    temperature: float = 0.0
    """0 is greedy decoding; otherwise logits are divided by it."""
    top_p: float = 1.0
    """Nucleus: the smallest set of most probable tokens whose mass reaches top_p. 1 is off."""
    top_k: int = 0
    """Keep the k most probable tokens. 0 is off."""
    min_p: float = 0.0
    """Drop tokens less probable than min_p times the most probable one. 0 is off."""
    max_new_tokens: int = 512
    stop: tuple[str, ...] = ()
    """Generation ends before the first of these strings; the text is cut there."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature must be 0 (greedy) or a positive number, got {self.temperature}")
        if not 0 <= self.top_p <= 1:
            raise ValueError(f"top_p must lie between 0 and 1, got {self.top_p}")
        if self.top_k < 0:
            raise ValueError(f"top_k must be 0 (off) or positive, got {self.top_k}")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p must lie between 0 and 1, got {self.min_p}")
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be at least 1, got {self.max_new_tokens}")
        if any(not text for text in self.stop):
            raise ValueError("stop holds an empty string, which would end every completion at once")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    def __str__(self) -> str:
        """What is in effect, in a few words."""
        words = [f"at most {self.max_new_tokens} new tokens"]
        if self.stop:
            words.append(f"stop {list(self.stop)}")
        if self.greedy:
            return ", ".join(["greedy", *words])
        filters = {"top_k": (self.top_k, 0), "top_p": (self.top_p, 1), "min_p": (self.min_p, 0)}
        on = [f"{name} {value:g}" for name, (value, off) in filters.items() if value != off]
        return ", ".join([f"temperature {self.temperature:g}", *on, f"seed {self.seed}", *words])


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One completion to be made. `prompt_ids` are final: no special token is added later."""

    problem_id: str
    sample_index: int
    prompt_ids: tuple[int, ...]

    @property
    def key(self) -> Key:
        return (self.problem_id, self.sample_index)


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds from a request's arrival at the engine."""

    first_token: float
    last_token: float


@dataclass(frozen=True, slots=True)
class Completion:
    """One finished completion.

    `token_ids` holds every token that was sampled and kept, the EOS token included when there was one; both
    log-probability tuples are as long. `logprobs` are of the raw policy (temperature 1), `sampling_logprobs` at the
    sampling temperature, before top-k, top-p and min-p; under greedy decoding the two are equal.
    `text` is decoded without special tokens and cut before a stop string.
    """

    problem_id: str
    sample_index: int
    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    sampling_logprobs: tuple[float, ...]
    finish_reason: FinishReason
    error: str | None = None
    policy_version: int = 0
    """Version of the weights that the first token came from."""
    timing: Timing | None = None
    """None where no token was made."""

    @property
    def key(self) -> Key:
        return (self.problem_id, self.sample_index)

    @classmethod
    def failed(cls, request: GenerationRequest, error: str) -> "Completion":
        return cls(request.problem_id, request.sample_index, "", (), (), (), "error", error)
