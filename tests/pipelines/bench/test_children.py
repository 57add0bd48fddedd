"""Every contender does the very work that it was given, counted by a plain loop."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from actors.models import ModelSpec, load_model
from actors.models.checkpoint import known_tokens
from pipelines.bench.children import ours, transformers_generate
from pipelines.bench.contenders import (
    GENERATE,
    GENERATE_BATCH,
    OURS,
    OURS_DYNAMIC,
    OURS_STATIC,
    OURS_WITHOUT_KERNELS,
    Contender,
)
from pipelines.bench.measurement import Measurement
from pipelines.bench.work import Work
from tests.actors.engine.tiny import CONFIGS, tiny_model, tiny_tokenizer

CHILDREN = {"ours": ours, "transformers_generate": transformers_generate}
CONTENDERS = [OURS, OURS_STATIC, OURS_DYNAMIC, OURS_WITHOUT_KERNELS, GENERATE, GENERATE_BATCH]
PROMPTS = tuple(tuple(3 + (7 * place + 11 * step) % 250 for step in range(4 + 3 * place)) for place in range(5))
NEW_TOKENS = 12


@cache
def model() -> Any:
    """A tiny Llama that can say nothing that its tokenizer does not know, so that nobody needs to forbid it."""
    config = CONFIGS["llama"]()
    config.vocab_size = known_tokens(tiny_tokenizer())
    made = transformers.AutoModelForCausalLM.from_config(config)
    trained = tiny_model("llama").state_dict()
    made.load_state_dict({name: trained[name][: len(weight)] for name, weight in made.state_dict().items()})
    return made.eval()


def plain_loop(prompt: Sequence[int], eos: Collection[int]) -> list[int]:
    """Greedy, one token at a time, all of it computed again each time."""
    ids = list(prompt)
    while len(ids) < len(prompt) + NEW_TOKENS:
        with torch.inference_mode():
            ids.append(int(model()(torch.tensor([ids])).logits[0, -1].argmax()))
        if ids[-1] in eos:
            break
    return ids[len(prompt) :]


@pytest.fixture(scope="module")
def eos() -> set[int]:
    """The tokenizer's end, and a token with which the second prompt's completion goes on early."""
    return {2, plain_loop(PROMPTS[1], ())[4]}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory, eos: set[int]) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    model().config.eos_token_id = sorted(eos)
    model().generation_config.eos_token_id = sorted(eos)
    model().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def measured(checkpoint: Path, contender: Contender, work: Work) -> Measurement:
    spec = {
        "model": {"path": str(checkpoint), "dtype": "float32", "device": "cpu"},
        "threads": 1,
        "gguf": None,
        "settings": dict(contender.settings),
        "work": asdict(work),
    }
    return Measurement.read(CHILDREN[contender.script].measure(spec))


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda contender: contender.name)
def test_useful_tokens_are_those_of_a_plain_loop_with_the_eos(
    checkpoint: Path, eos: set[int], contender: Contender
) -> None:
    expected = [len(plain_loop(prompt, eos)) for prompt in PROMPTS]
    assert min(expected) <= 5 < max(expected) == NEW_TOKENS, "the case shows nothing unless some end early"
    run = measured(checkpoint, contender, Work(PROMPTS, NEW_TOKENS, batch_size=2))
    assert list(run.lengths) == expected
    assert run.useful_tokens == sum(expected)


@pytest.mark.parametrize("generate", [transformers_generate._padded, transformers_generate._continuous])
def test_transformers_says_what_a_plain_loop_says(checkpoint: Path, eos: set[int], generate: Any) -> None:
    """Token for token: padding and its mask are right."""
    loaded = load_model(ModelSpec(str(checkpoint), dtype="float32", device="cpu"))
    rows = generate(loaded, Work(PROMPTS, NEW_TOKENS, batch_size=2), eos)
    useful = [row[: transformers_generate.useful_tokens(row, eos)] for row in rows]
    assert useful == [plain_loop(prompt, eos) for prompt in PROMPTS]


@pytest.mark.parametrize("contender", [OURS, GENERATE], ids=lambda contender: contender.name)
def test_every_completion_is_of_full_length_where_the_eos_is_ignored(checkpoint: Path, contender: Contender) -> None:
    run = measured(checkpoint, contender, Work(PROMPTS, NEW_TOKENS, batch_size=2, ignore_eos=True))
    assert list(run.lengths) == [NEW_TOKENS] * len(PROMPTS)


def test_the_checkpoints_generation_settings_have_no_say_in_generate(checkpoint: Path, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    for file in checkpoint.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    settings = transformers.GenerationConfig.from_pretrained(folder)
    settings.update(repetition_penalty=50.0, suppress_tokens=list(range(3, 200)), no_repeat_ngram_size=1)
    settings.save_pretrained(folder)
    work = Work(PROMPTS, NEW_TOKENS, batch_size=2)
    assert measured(folder, GENERATE, work).lengths == measured(checkpoint, GENERATE, work).lengths


@pytest.mark.parametrize("contender", [OURS, GENERATE], ids=lambda contender: contender.name)
def test_several_samples_are_drawn_of_each_prompt_in_its_place(
    checkpoint: Path, eos: set[int], contender: Contender
) -> None:
    """At a temperature near 0 all samples of a prompt are its greedy completion; at a high one they differ."""
    cold = Work(PROMPTS, NEW_TOKENS, batch_size=4, samples=2, temperature=1e-4)
    greedy = [len(plain_loop(prompt, eos)) for prompt in PROMPTS]
    assert list(measured(checkpoint, contender, cold).lengths) == [length for length in greedy for _ in range(2)]
    hot = measured(checkpoint, contender, Work(PROMPTS[:1], 60, batch_size=8, samples=8, temperature=2.0))
    assert len(hot.lengths) == 8 and len(set(hot.lengths)) > 1


def test_one_by_one_draws_the_same_samples(checkpoint: Path) -> None:
    work = Work(PROMPTS, 60, batch_size=8, samples=8, temperature=1.0)
    together, alone = (measured(checkpoint, OURS, each) for each in (work, replace(work, batch_size=1)))
    assert together.lengths == alone.lengths
    assert len(set(together.lengths)) > 5


def test_a_group_is_read_once_and_separate_prompts_each(checkpoint: Path) -> None:
    prompts = tuple(tuple(3 + (place + step) % 200 for step in range(40)) for place in range(4))
    separate = Work(prompts, 1, batch_size=4, ignore_eos=True)
    group = replace(separate, prompts=prompts[:1], samples=4, repeats=2)
    one, other = (measured(checkpoint, OURS, work) for work in (group, separate))
    assert one.lengths == other.lengths == (1, 1, 1, 1)
    assert one.engine is not None and other.engine is not None
    assert other.engine["prompt_tokens"] == 4 * 39
    assert one.engine["prompt_tokens"] <= 4 + 39


def test_recorded_steps_are_those_in_which_every_row_decodes_and_their_context_grows_by_one(checkpoint: Path) -> None:
    prompts = tuple(tuple(3 + (place + step) % 200 for step in range(100)) for place in range(4))
    run = measured(checkpoint, OURS, Work(prompts, 20, batch_size=4, ignore_eos=True, record_steps=True))
    contexts = [context for context, _ in run.steps]
    assert len(contexts) >= 15
    assert all(late - early == 1 for early, late in pairwise(contexts))
    assert 118 <= contexts[-1] <= 119, "prompts that were read a step earlier also end a step earlier"


def test_a_static_batch_starts_when_the_one_before_is_done(checkpoint: Path) -> None:
    run = measured(checkpoint, OURS_STATIC, Work(PROMPTS, NEW_TOKENS, batch_size=2))
    assert [set(run.order[first : first + 2]) for first in (0, 2, 4)] == [{0, 1}, {2, 3}, {4}]


def test_memory_is_told_apart(checkpoint: Path) -> None:
    work = Work(PROMPTS, NEW_TOKENS, batch_size=5)
    memory = measured(checkpoint, OURS, work).memory
    assert memory is not None
    assert memory["weights"] == sum(parameter.nbytes for parameter in model().parameters())
    token = 2 * 2 * 2 * 8 * 4  # keys and values, layers, heads, head size, bytes
    held = token * sum(len(prompt) + NEW_TOKENS for prompt in PROMPTS)
    assert held / 2 < memory["pool_used"] < 20 * held
    assert memory["pool_used"] <= memory["pool_reached"] <= memory["pool"]
    assert memory["peak"] > memory["before"] > 0


def test_a_request_that_cannot_be_served_fails_the_child(checkpoint: Path) -> None:
    with pytest.raises(RuntimeError, match="token id outside"):
        measured(checkpoint, OURS, Work((*PROMPTS, (100_000,)), NEW_TOKENS, batch_size=2))
