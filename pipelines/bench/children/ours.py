"""Our own engine on one work: `python -m pipelines.bench.children.ours SPEC.json`."""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from actors.engine.continuous.build import ContinuousOptions, build_continuous_engine
from actors.engine.continuous.engine import ContinuousEngine
from actors.engine.continuous.policy import Policy
from actors.engine.machine import known_machine
from actors.engine.requests import Completion, GenerationRequest, SamplingParams
from actors.models import LoadedModel, ModelSpec, load_model, load_tokenizer, read_config
from pipelines.bench.children.memory import device_peak, forget_peak, peak_resident, resident
from pipelines.bench.work import Work

WARM_UP_PROMPTS, WARM_UP_STEPS = 2, 8


@dataclass(slots=True)
class Run:
    """What was seen while the work was done once."""

    completions: list[Completion]
    seconds: float
    steps: int
    prompt_tokens: int
    padding_tokens: int
    preemptions: int
    pool_used: int
    """Most tokens of the pool that were taken at once."""
    step_seconds: list[tuple[float, float]]
    """(mean context a row, seconds) of the steps in which every row decoded; empty unless asked for."""
    chunks: list[tuple[int, float, bool]]
    """(tokens sampled, seconds, whether requests still waited at its end) of the parts of the run: one ends whenever a
    quarter of a batch has been completed, or an eighth of the requests if that is less."""
    limit_share: float | None
    """Least time that the machine's limits allow, over the time of the steps; None where limits were not asked for."""


def measure(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Load, warm up, do the work; returns what `Measurement.read` takes."""
    torch.set_num_threads(spec["threads"])
    work, model = Work(**spec["work"]), ModelSpec(**spec["model"])
    before = _load_libraries(model)
    loaded = load_model(model)
    weights = sum(parameter.nbytes for parameter in loaded.model.parameters())  # the engine takes them out
    engine = _build(loaded, work, spec["settings"])
    requests = [
        GenerationRequest(str(place), sample, tuple(ids))
        for place, ids in enumerate(work.prompts)
        for sample in range(work.samples)
    ]
    sampling = SamplingParams(temperature=work.temperature, max_new_tokens=work.max_new_tokens)
    _warm_up(engine, requests[:WARM_UP_PROMPTS], sampling)
    peak_loading, since_loading = peak_resident(), forget_peak()
    runs = [_run(engine, requests, sampling, work.record_steps) for _ in range(work.repeats)]
    return {
        **_times(runs),
        "peak_resident": max(peak_loading, peak_resident()),
        "peak_working": peak_resident(),
        "peak_device": device_peak(loaded.device),
        "memory": {
            "weights": weights,
            **_memory(engine, max(run.pool_used for run in runs), before, loaded.device),
            "peak_without_loading": since_loading,
        },
        "engine": _engine_facts(engine, runs[-1], loaded, work.batch_size),
        "steps": [step for run in runs for step in run.step_seconds],
        "chunks": runs[-1].chunks,
        "limit_share": runs[-1].limit_share,
    }


def _load_libraries(model: ModelSpec) -> int:
    """Load all code that the model needs, without its weights; returns the memory that is resident then."""
    with torch.device("meta"):
        AutoModelForCausalLM.from_config(read_config(model.path, model.revision, model.trust_remote_code))
    load_tokenizer(model.path, model.revision, model.trust_remote_code)
    return resident()


def _build(loaded: LoadedModel, work: Work, settings: Mapping[str, Any]) -> ContinuousEngine:
    options = ContinuousOptions(
        work.batch_size,
        policy=Policy(settings["policy"]),
        # Where single steps are timed, no row may be held back for want of room.
        admission="worst_case" if work.record_steps else "optimistic",
        kernels=settings.get("kernels", True),
        machine=known_machine(loaded.device, loaded.dtype) if settings.get("limits") else None,
    )
    eos = () if work.ignore_eos else loaded.eos_token_ids
    return build_continuous_engine(
        loaded.model, loaded.tokenizer, options, eos_token_ids=eos, context_length=loaded.context_length
    )


def _warm_up(engine: ContinuousEngine, requests: list[GenerationRequest], sampling: SamplingParams) -> None:
    """A few steps, broken off: from a finished completion the engine would learn how long the others become."""
    tickets = engine.add(requests, sampling)
    for _ in range(WARM_UP_STEPS):
        engine.step()
    engine.abort(tickets)


def _run(
    engine: ContinuousEngine, requests: list[GenerationRequest], sampling: SamplingParams, record_steps: bool
) -> Run:
    progress = engine.progress
    before = replace(progress)
    prompts = sum(len(request.prompt_ids) for request in requests)
    pool_used, step_seconds, chunks = 0, [], []
    done: dict[int, Completion] = {}
    chunk = max(1, min(engine.scheduler.batch_size // 4, len(requests) // 8))
    start = now = begun = time.perf_counter()
    ended, counted = 0, before.tokens_sampled
    tickets = engine.add(requests, sampling)
    while len(done) < len(tickets):
        sampled, read = progress.tokens_sampled, progress.prompt_tokens
        done |= dict(engine.step())
        pool_used = max(pool_used, engine.stats()["kv_tokens_used"])
        last, now = now, time.perf_counter()
        if record_steps and progress.prompt_tokens == read and progress.tokens_sampled - sampled == len(requests):
            step_seconds.append(((prompts + sampled - before.tokens_sampled) / len(requests), now - last))
        if len(done) - ended >= chunk or len(done) == len(tickets):
            chunks.append((progress.tokens_sampled - counted, now - begun, progress.waiting > 0))
            ended, counted, begun = len(done), progress.tokens_sampled, now
    seconds = time.perf_counter() - start
    completions = [done[ticket] for ticket in tickets]
    if errors := {completion.error for completion in completions if completion.error is not None}:
        raise RuntimeError(f"completions failed: {'; '.join(sorted(errors))}")
    return Run(
        completions=completions,
        seconds=seconds,
        steps=progress.decode_steps - before.decode_steps,
        prompt_tokens=progress.prompt_tokens - before.prompt_tokens,
        padding_tokens=progress.padding_tokens - before.padding_tokens,
        preemptions=progress.preemptions - before.preemptions,
        pool_used=pool_used,
        step_seconds=step_seconds,
        chunks=chunks,
        limit_share=least_s / (progress.busy_s - before.busy_s)
        if (least_s := progress.least_s - before.least_s)
        else None,
    )


def _times(runs: list[Run]) -> dict[str, Any]:
    firsts = [[each.timing.first_token for each in run.completions if each.timing is not None] for run in runs]
    return {
        "lengths": [len(completion.token_ids) for completion in runs[-1].completions],
        "seconds": median(run.seconds for run in runs),
        "first_token_s": median(map(max, firsts)),
        "order": sorted(range(len(firsts[-1])), key=firsts[-1].__getitem__),
    }


def _memory(engine: ContinuousEngine, pool_used: int, before: int, device: torch.device) -> dict[str, int]:
    """Bytes. On a GPU only its own memory counts, and the pool is taken whole."""
    attention: Any = engine.attention
    pool = sum(each.nbytes for each in (*attention.keys, *attention.values))
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(device)
        return {"before": 0, "pool": pool, "pool_used": pool, "pool_reached": pool, "peak": peak}
    stats = engine.stats()
    used, reached = (pool * tokens // stats["kv_tokens"] for tokens in (pool_used, stats["kv_tokens_reached"]))
    return {"before": before, "pool": pool, "pool_used": used, "pool_reached": reached, "peak": peak_resident()}


def _engine_facts(engine: ContinuousEngine, run: Run, loaded: LoadedModel, batch_size: int) -> dict[str, Any]:
    sampled = sum(len(completion.token_ids) for completion in run.completions)
    return {
        "steps": run.steps,
        "occupancy": sampled / (run.steps * batch_size),
        "padding_share": run.padding_tokens / (run.padding_tokens + run.prompt_tokens + sampled),
        "prompt_tokens": run.prompt_tokens,
        "preemptions": run.preemptions,
        "pool_tokens": engine.stats()["kv_tokens"],
        "pool_tokens_used": run.pool_used,
        "mean_length": mean(len(completion.token_ids) for completion in run.completions),
        "decoder": engine.decoder.name,
        "attention": engine.attention.name,
        "dtype": str(loaded.dtype).removeprefix("torch."),
        "device": str(loaded.device),
    }


if __name__ == "__main__":
    logging.disable_progress_bar()
    print(json.dumps(measure(json.loads(Path(sys.argv[1]).read_text()))))
