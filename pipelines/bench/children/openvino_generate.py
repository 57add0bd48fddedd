"""OpenVINO GenAI's continuous batching on one work, on the CPU, from a GGUF file: `python openvino_generate.py SPEC.json`.

Runs in an interpreter that has `openvino_genai` and need not have Mathlete: this file imports nothing of it.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import openvino_genai

WARM_UP_PROMPTS, WARM_UP_TOKENS = 2, 4

CACHE_GIB = 2
"""Room for keys and values; enough for a full batch of a small model."""

TOKENS_A_STEP = 2048
"""More than the default of 256, with which it reads many prompts in many steps."""


def measure(spec: dict[str, Any]) -> dict[str, Any]:
    """Load, warm up, do the work once."""
    work = spec["work"]
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.max_num_seqs = work["batch_size"]
    scheduler.max_num_batched_tokens = TOKENS_A_STEP
    scheduler.cache_size = CACHE_GIB
    scheduler.enable_prefix_caching = False
    pipeline = openvino_genai.ContinuousBatchingPipeline(
        spec["gguf"], scheduler, "CPU", {"INFERENCE_NUM_THREADS": spec["threads"]}
    )
    prompts = [openvino.Tensor(np.array([ids], dtype=np.int64)) for ids in work["prompts"]]
    warm_up, config = (_greedy(tokens, work["ignore_eos"]) for tokens in (WARM_UP_TOKENS, work["max_new_tokens"]))
    some = prompts[:WARM_UP_PROMPTS]
    pipeline.generate(some, [warm_up] * len(some))
    start = time.perf_counter()
    made = pipeline.generate(prompts, [config] * len(prompts))
    seconds = time.perf_counter() - start
    lengths = [len(each.m_generation_ids[0]) for each in made]
    return {"lengths": lengths, "seconds": seconds, "peak_resident": _peak_resident()}


def _greedy(max_new_tokens: int, ignore_eos: bool) -> openvino_genai.GenerationConfig:
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = max_new_tokens
    config.ignore_eos = ignore_eos
    config.do_sample = False
    return config


def _peak_resident() -> int:
    """As `memory.peak_resident`, which this interpreter may not have."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(Path(sys.argv[1]).read_text()))))
