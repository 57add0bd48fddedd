"""What is to be generated, the same for all that are compared on it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle, islice

from pipelines.problems import PromptError

Ids = tuple[int, ...]

PROBLEMS = 128
BATCH_SIZE = 64
UNIFORM_TOKENS = 64
MOST_NEW_TOKENS = 512
SINGLE_PROBLEMS = 4
SINGLE_TOKENS = 128
GROUP_SIZE = 8
GROUP_PROMPT_TOKENS = 256
GROUP_REPEATS = 5
SAMPLED_PROBLEMS = 32
SAMPLED_TOKENS = 256
TEMPERATURE = 0.6
GROWTH_ROWS = 16
GROWTH_FROM, GROWTH_TO, GROWTH_STEP = 128, 1024, 128
"""Live context a row, in tokens, over which the time of a decode step is followed."""
GROWTH_POINTS = 3
"""It takes so many to see how it grows."""


@dataclass(frozen=True, slots=True)
class Work:
    """Completions of `prompts`, at most `batch_size` at once; a contender does it `repeats` times."""

    prompts: tuple[Ids, ...]
    max_new_tokens: int
    batch_size: int
    ignore_eos: bool = False
    """Every completion runs to `max_new_tokens`."""
    samples: int = 1
    """Completions of each prompt."""
    temperature: float = 0.0
    """0 is greedy."""
    repeats: int = 1
    record_steps: bool = False
    """Whether the time of each decode step is wanted."""
    less: str = ""
    """In which way this is less than the full work; empty if it is not."""


@dataclass(frozen=True, slots=True)
class Supply:
    """What works are made of."""

    prompts: tuple[Ids, ...]
    context_length: int | None
    one_by_one: int
    """Problems that are run one by one."""


def uniform(supply: Supply) -> Work:
    """All completions of one length, one full batch."""
    prompts = supply.prompts[:BATCH_SIZE]
    tokens = room(supply.context_length, prompts, UNIFORM_TOKENS)
    less = _less((len(prompts), BATCH_SIZE, "prompts"), (tokens, UNIFORM_TOKENS, "new tokens"))
    return Work(prompts, tokens, BATCH_SIZE, ignore_eos=True, less=less)


def problems(supply: Supply) -> Work:
    """Problems as an evaluation runs them: completions end where the model ends them."""
    prompts = supply.prompts[:PROBLEMS]
    tokens = room(supply.context_length, prompts, MOST_NEW_TOKENS)
    less = _less((len(prompts), PROBLEMS, "problems"), (tokens, MOST_NEW_TOKENS, "new tokens"))
    return Work(prompts, tokens, BATCH_SIZE, less=less)


def problems_one_by_one(supply: Supply) -> Work:
    """Some of the same problems, evenly spread over them, one after the other."""
    whole = problems(supply)
    some = spread(whole.prompts, supply.one_by_one)
    less = f"one by one {len(some)} of the {len(whole.prompts)} problems, evenly spread"
    return Work(some, whole.max_new_tokens, 1, less=less if len(some) < len(whole.prompts) else "")


def single(supply: Supply) -> Work:
    """A few completions of one length, one after the other."""
    prompts = supply.prompts[:SINGLE_PROBLEMS]
    tokens = room(supply.context_length, prompts, SINGLE_TOKENS)
    less = _less((len(prompts), SINGLE_PROBLEMS, "problems"), (tokens, SINGLE_TOKENS, "new tokens"))
    return Work(prompts, tokens, 1, ignore_eos=True, less=less)


def group(supply: Supply) -> Work:
    """The first token of several samples of one prompt."""
    prompt = rotations(supply.prompts, GROUP_SIZE, GROUP_PROMPT_TOKENS)[:1]
    room(supply.context_length, prompt, 1)
    return Work(prompt, 1, GROUP_SIZE, ignore_eos=True, samples=GROUP_SIZE, repeats=GROUP_REPEATS)


def separate(supply: Supply) -> Work:
    """The first token of as many prompts of the same length that have nothing in common."""
    prompts = rotations(supply.prompts, GROUP_SIZE, GROUP_PROMPT_TOKENS)
    room(supply.context_length, prompts, 1)
    return Work(prompts, 1, GROUP_SIZE, ignore_eos=True, repeats=GROUP_REPEATS)


def sampled(supply: Supply) -> Work:
    """Several samples of each problem, as many at once as one problem has."""
    prompts = supply.prompts[:SAMPLED_PROBLEMS]
    tokens = room(supply.context_length, prompts, SAMPLED_TOKENS)
    less = _less((len(prompts), SAMPLED_PROBLEMS, "problems"), (tokens, SAMPLED_TOKENS, "new tokens"))
    return Work(prompts, tokens, GROUP_SIZE, samples=GROUP_SIZE, temperature=TEMPERATURE, less=less)


def sampled_one_by_one(supply: Supply) -> Work:
    """The same samples of some of the problems, evenly spread over them, one after the other."""
    whole = sampled(supply)
    some = spread(whole.prompts, supply.one_by_one)
    less = f"one by one {len(some)} of the {len(whole.prompts)} problems, evenly spread"
    return replace(whole, prompts=some, batch_size=1, less=less if len(some) < len(whole.prompts) else "")


def growth(supply: Supply) -> Work:
    """Rows of one length that decode until their context is long."""
    prompts = rotations(supply.prompts, GROWTH_ROWS, GROWTH_FROM)
    wanted = GROWTH_TO - GROWTH_FROM
    tokens = room(supply.context_length, prompts, wanted)
    least = (GROWTH_POINTS - 1) * GROWTH_STEP
    if tokens < least:
        raise PromptError(f"a context of {GROWTH_FROM + tokens} tokens shows no growth; it takes {GROWTH_FROM + least}")
    less = _less((GROWTH_FROM + tokens, GROWTH_TO, "tokens of context"))
    return Work(prompts, tokens, GROWTH_ROWS, ignore_eos=True, record_steps=True, less=less)


def spread(prompts: Sequence[Ids], count: int) -> tuple[Ids, ...]:
    """`count` of `prompts`, or all if there are fewer, at even distances from the first on."""
    count = min(count, len(prompts))
    return tuple(prompts[place * len(prompts) // count] for place in range(count))


def rotations(prompts: Sequence[Ids], count: int, length: int) -> tuple[Ids, ...]:
    """`count` different prompts of `length` tokens out of the text of `prompts`: where it ends, it starts again."""
    text = tuple(chain.from_iterable(prompts))
    starts = [place * len(text) // count for place in range(count)]
    made = tuple(tuple(islice(cycle(text), start, start + length)) for start in starts)
    if len(set(made)) < count:
        raise PromptError(f"the problems are too few or too alike for {count} different prompts; take more of them")
    return made


def room(context_length: int | None, prompts: Sequence[Ids], wanted: int) -> int:
    """`wanted` new tokens, or as many as the model's context leaves behind the longest prompt. Raises PromptError where
    it leaves none."""
    if context_length is None:
        return wanted
    longest = max(map(len, prompts))
    if longest >= context_length:
        raise PromptError(f"a prompt of {longest} tokens leaves no room in the model's context of {context_length}")
    return min(wanted, context_length - longest)


def _less(*parts: tuple[int, int, str]) -> str:
    return ", ".join(f"{have} of {full} {what}" for have, full, what in parts if have < full)
