"""Our engine under requests that arrive over time: `python -m … SPEC.json`."""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from actors.engine.continuous.build import ContinuousOptions, build_continuous_engine
from actors.engine.continuous.engine import ContinuousEngine
from actors.engine.continuous.policy import Policy
from actors.engine.machine import known_machine
from actors.engine.requests import Completion, GenerationRequest, SamplingParams
from actors.models import ModelSpec, load_model
from pipelines.bench.children.memory import device_peak, forget_peak, peak_resident
from pipelines.bench.traffic import Traffic

WARM_UP_REQUESTS, WARM_UP_TOKENS = 4, 8


def measure(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Load, warm up, serve one traffic after the other; returns what `ServingRun.read` takes."""
    torch.set_num_threads(spec["threads"])
    loaded = load_model(ModelSpec(**spec["model"]))
    options = ContinuousOptions(
        spec["batch_size"], policy=Policy(spec["policy"]), machine=known_machine(loaded.device, loaded.dtype)
    )
    # Lengths are given: no token ends a completion.
    engine = build_continuous_engine(
        loaded.model, loaded.tokenizer, options, eos_token_ids=(), context_length=loaded.context_length
    )
    traffics = [Traffic(**each) for each in spec["traffic"]]
    first = traffics[0]
    few = min(WARM_UP_REQUESTS, len(first.prompts))
    warm_up = replace(first, arrivals=(0.0,) * few, prompts=first.prompts[:few], lengths=(WARM_UP_TOKENS,) * few)
    serve(engine, warm_up)
    forget_peak()
    served = [serve(engine, traffic) for traffic in traffics]
    return {"served": served, "peak_working": peak_resident(), "peak_device": device_peak(loaded.device)}


def serve(engine: ContinuousEngine, traffic: Traffic) -> dict[str, Any]:
    """Give the engine each request when its time has come, until all are done.

    Times are in seconds from a request's own arrival, so that what arrives in the middle of a step waits for its end.
    `blocked`: of those, seconds in which it waited although a place was free.
    """
    before = replace(engine.progress)
    count = len(traffic.arrivals)
    placed: dict[int, int] = {}
    added, blocked = [0.0] * count, [0.0] * count
    done: dict[int, Completion] = {}
    start = time.perf_counter()
    begun = 0
    while len(done) < count:
        now = time.perf_counter() - start
        while begun < count and traffic.arrivals[begun] <= now:
            request = GenerationRequest(str(begun), 0, tuple(traffic.prompts[begun]))
            (ticket,) = engine.add([request], SamplingParams(max_new_tokens=traffic.lengths[begun]))
            placed[ticket], added[begun] = begun, now
            begun += 1
        pause = engine.scheduler.opens_in_s if engine.busy else float("inf")
        if pause > 0:
            until_next = traffic.arrivals[begun] - now if begun < count else float("inf")
            time.sleep(max(0.0, min(pause, until_next)))
            waited = time.perf_counter() - start - now
        else:
            done |= {placed[ticket]: completion for ticket, completion in engine.step()}
            waited = time.perf_counter() - start - now
        if len(engine.scheduler.live) < engine.scheduler.batch_size:
            for sequence in engine.scheduler.waiting:
                blocked[placed[sequence.ticket]] += waited
    if errors := {completion.error for completion in done.values() if completion.error is not None}:
        raise RuntimeError(f"completions failed: {'; '.join(sorted(errors))}")
    progress = engine.progress
    run = progress.tokens_sampled - before.tokens_sampled + progress.prompt_tokens - before.prompt_tokens
    padding = progress.padding_tokens - before.padding_tokens
    busy = progress.busy_s - before.busy_s
    timings = [done[place].timing for place in range(count)]
    late = [at - arrival for at, arrival in zip(added, traffic.arrivals, strict=True)]
    return {
        "rate": traffic.rate,
        "seconds": traffic.seconds,
        "arrivals": list(traffic.arrivals),
        "tokens": [len(done[place].token_ids) for place in range(count)],
        "first": [wait + timing.first_token for wait, timing in zip(late, timings, strict=True) if timing],
        "last": [wait + timing.last_token for wait, timing in zip(late, timings, strict=True) if timing],
        "blocked": blocked,
        "occupancy": (progress.row_steps - before.row_steps) / (progress.place_steps - before.place_steps),
        "padding_share": padding / (padding + run),
        "busy_share": busy / (time.perf_counter() - start),
        "limit_share": (progress.least_s - before.least_s) / busy,
    }


if __name__ == "__main__":
    logging.disable_progress_bar()
    print(json.dumps(measure(json.loads(Path(sys.argv[1]).read_text()))))
