"""transformers on one work: `generate` on left-padded batches, or its own continuous batching, `generate_batch`.

`python -m pipelines.bench.children.transformers_generate SPEC.json`
"""

import json
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig
from transformers.utils import logging

from actors.models import LoadedModel, ModelSpec, load_model
from pipelines.bench.children.memory import peak_resident
from pipelines.bench.work import Work

WARM_UP_PROMPTS, WARM_UP_TOKENS = 2, 4


def measure(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Load, warm up, do the work once; returns what `Measurement.read` takes."""
    torch.set_num_threads(spec["threads"])
    work = Work(**spec["work"])
    loaded = load_model(ModelSpec(**spec["model"]))
    # What a configuration leaves open, `generate` would fill from the checkpoint's.
    loaded.model.generation_config = GenerationConfig()
    eos = frozenset() if work.ignore_eos else loaded.eos_token_ids
    generate = {"padded": _padded, "continuous": _continuous}[spec["settings"]["mode"]]
    torch.manual_seed(0)
    warm_up = replace(work, prompts=work.prompts[:WARM_UP_PROMPTS], max_new_tokens=WARM_UP_TOKENS)
    generate(loaded, warm_up, eos)
    start = time.perf_counter()
    rows = generate(loaded, work, eos)
    seconds = time.perf_counter() - start
    lengths = [useful_tokens(row, eos) for row in rows]
    return {"lengths": lengths, "seconds": seconds, "peak_resident": peak_resident()}


def useful_tokens(ids: Sequence[int], eos: Collection[int]) -> int:
    """How many of `ids` count: up to the first of `eos`, it included; all if there is none."""
    return next((place for place, token in enumerate(ids, start=1) if token in eos), len(ids))


def _configuration(work: Work, eos: Collection[int]) -> GenerationConfig:
    sampling = {"do_sample": True, "temperature": work.temperature, "top_k": 0, "top_p": 1.0}
    return GenerationConfig(
        max_new_tokens=work.max_new_tokens,
        **(sampling if work.temperature else {"do_sample": False}),
        num_return_sequences=work.samples,
        num_beams=1,
        repetition_penalty=1.0,
        use_cache=True,
        eos_token_id=sorted(eos) or None,
        pad_token_id=min(eos, default=0),
    )


def _padded(loaded: LoadedModel, work: Work, eos: Collection[int]) -> list[list[int]]:
    """New tokens of each sample, those of a prompt one after the other; a row that ended before its batch goes on in
    padding."""
    model: Any = loaded.model
    config = _configuration(work, eos)
    together = max(1, work.batch_size // work.samples)
    rows: list[list[int]] = []
    for first in range(0, len(work.prompts), together):
        batch = work.prompts[first : first + together]
        width = max(map(len, batch))
        ids = torch.tensor([[config.pad_token_id] * (width - len(row)) + list(row) for row in batch])
        # From lengths: the padding's id may stand inside a prompt.
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in batch])
        with torch.inference_mode():
            made = model.generate(
                input_ids=ids.to(loaded.device), attention_mask=mask.to(loaded.device), generation_config=config
            )
        rows += made[:, width:].tolist()
    return rows


def _continuous(loaded: LoadedModel, work: Work, eos: Collection[int]) -> list[list[int]]:
    """New tokens of each prompt. How many run at once is transformers' own choice.

    Its pool is made for the work, all of it at once: by default it takes most of the machine's memory, and its time.
    """
    config, prompts = _configuration(work, eos), work.prompts
    model: Any = loaded.model
    batching = ContinuousBatchingConfig()
    pages = (-(-(len(row) + config.max_new_tokens) // batching.page_size) for row in prompts)
    batching.num_blocks = sum(pages)
    made = model.generate_batch(
        inputs=[list(row) for row in prompts], generation_config=config, continuous_batching_config=batching
    )
    outputs = list(made.values())
    errors = [output.error for output in outputs if output.error is not None]
    if errors or len(outputs) < len(prompts):
        raise RuntimeError(f"generate_batch gave {len(outputs)} of {len(prompts)} completions: {errors[:1]}")
    return [output.generated_tokens for output in outputs]


if __name__ == "__main__":
    logging.disable_progress_bar()
    print(json.dumps(measure(json.loads(Path(sys.argv[1]).read_text()))))
