"""Settings at their fullest, under a limit of memory: `python -m … SPEC.json`.

The limit is the kernel's on private memory (RLIMIT_DATA: heap and anonymous mappings, touched or not), or on a GPU torch's
on its own share. Beyond it an allocation fails, here and at once, and nothing else on the machine suffers.
"""

import json
import re
import resource
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from actors.engine.continuous.build import ContinuousOptions, build_continuous_engine
from actors.engine.continuous.engine import ContinuousEngine
from actors.engine.requests import GenerationRequest, SamplingParams
from actors.learning import AdvantageSettings, LearnerSettings, Rollout, RolloutGroup
from actors.learning.learner import Learner
from actors.models import ModelSpec, load_model
from pipelines.bench.children.memory import device_peak, peak_resident, private

NEW_TOKENS = 3
"""Steps in which all rows decode."""


def measure(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether the settings fit and the peaks of memory, in bytes; `reason` says why they do not."""
    torch.set_num_threads(spec["threads"])
    limit = spec["limit"]
    on_gpu = torch.cuda.is_available() and spec["model"]["device"] != "cpu"
    if limit is not None and on_gpu:
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / torch.cuda.get_device_properties(0).total_memory))
    elif limit is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    reason = taken = None
    try:
        learner = _learn(spec) if spec["learner"] is not None else None
        engine = _generate(spec)
        taken = private()
        del learner, engine  # a run holds both until its end
    except (MemoryError, RuntimeError, OSError) as error:
        if not _lacks_memory(error):
            raise
        wanted = re.search(r"allocate ([\d.]+ \w+)", str(error))
        reason = f"{wanted[1]} more could not be allocated" if wanted else str(error).splitlines()[0]
    device = torch.device("cuda" if on_gpu else "cpu")
    peaks = {"peak_resident": peak_resident(), "private": taken, "peak_device": device_peak(device)}
    return {**peaks, "fits": reason is None, "reason": reason}


def _generate(spec: Mapping[str, Any]) -> ContinuousEngine:
    """An engine after all rows ran at once, in a pool of which every token is touched where `fill` says so."""
    loaded = load_model(ModelSpec(**spec["model"]))
    # Without the machine's limits, whose measurement would itself need memory.
    engine = build_continuous_engine(
        loaded.model, loaded.tokenizer, ContinuousOptions(**spec["engine"]), context_length=loaded.context_length
    )
    if spec["fill"]:
        _fill(engine)
    rows = spec["engine"]["batch_size"]
    prompt = max(1, min(spec["context"] - NEW_TOKENS, spec["prompt"]))
    requests = [GenerationRequest(str(row), 0, _ids(row, prompt)) for row in range(rows)]
    made = engine.generate(requests, SamplingParams(max_new_tokens=NEW_TOKENS, temperature=1.0))
    errors = {completion.error for completion in made if completion.error}
    if errors:
        raise RuntimeError("; ".join(sorted(errors)))
    if engine.scheduler.batch_size < rows:
        raise MemoryError(f"out of device memory: the engine went on with {engine.scheduler.batch_size} rows")
    return engine


def _fill(engine: ContinuousEngine) -> None:
    """Write to all of the pool: memory that was never touched is not resident."""
    attention: Any = engine.attention
    for each in (*attention.keys, *attention.values):
        each.zero_()


def _learn(spec: Mapping[str, Any]) -> Learner:
    """A learner after a step whose micro-batches were as full as they can be, with all that it keeps."""
    loaded = load_model(replace(ModelSpec(**spec["model"]), dtype="float32"))
    settings = LearnerSettings(
        advantages=AdvantageSettings(zero_variance_groups="keep"), share_prompts=False, **spec["learner"]
    )
    learner = Learner(loaded.model, settings)
    context = spec["context"]
    prompt = max(1, min(context - 1, spec["prompt"]))
    rows = max(2, -(-2 * learner.token_budget // context))
    ids = _ids(0, context)
    rollouts = [
        Rollout(ids[prompt:], (-1.0,) * (len(ids) - prompt), reward=float(row % 2), truncated=False)
        for row in range(rows)
    ]
    learner.step([RolloutGroup("full", ids[:prompt], tuple(rollouts))])
    return learner


def _ids(row: int, count: int) -> tuple[int, ...]:
    """Tokens that differ from row to row, so that no prompt is shared; ids that mean nothing special in any vocabulary."""
    return tuple(10 + (7919 * row + 31 * place) % 200 for place in range(count))


def _lacks_memory(error: BaseException) -> bool:
    text = str(error).lower()
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(
        words in text for words in ("allocate memory", "out of memory", "bad_alloc", "not enough memory", "memory with")
    )


if __name__ == "__main__":
    logging.disable_progress_bar()
    print(json.dumps(measure(json.loads(Path(sys.argv[1]).read_text()))))
