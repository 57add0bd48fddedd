"""GRPO steps of TRL's trainer: `python trl_grpo.py SPEC.json`.

Runs in an interpreter that has `trl` and need not have Mathlete: this file imports nothing of it.
"""

import contextlib
import json
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer


class Steps(TrainerCallback):
    """What each step took, and how many tokens it made."""

    def __init__(self, rollouts: int) -> None:
        self.found: list[dict[str, Any]] = []
        self._rollouts = rollouts

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._start = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self._seconds = time.perf_counter() - self._start

    def on_log(self, *_: Any, logs: dict[str, Any] | None = None, **__: Any) -> None:
        if logs and "completions/mean_length" in logs:
            tokens = logs["completions/mean_length"] * self._rollouts
            self.found.append({"seconds": self._seconds, "phases": {}, "tokens": tokens})


def reward(completions: list[list[dict[str, str]]], answer: list[str], **_: Any) -> list[float]:
    """1 where the last number of the text is the answer."""
    numbers = [re.findall(r"-?\d+", made[0]["content"]) for made in completions]
    return [float(bool(found) and found[-1] == right) for found, right in zip(numbers, answer, strict=True)]


def measure(spec: dict[str, Any], folder: str) -> dict[str, Any]:
    """Train for `steps` steps and one more, which warms up and is left out; returns what each step took."""
    torch.set_num_threads(spec["threads"])
    rollouts = spec["problems_per_step"] * spec["num_generations"]
    steps = Steps(rollouts)
    rows = [
        {"prompt": [{"role": "user", "content": row["problem"]}], "answer": row["answer"]} for row in spec["problems"]
    ]
    on_cpu = not torch.cuda.is_available()
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(spec["folder"], dtype=torch.bfloat16),
        reward_funcs=reward,
        processing_class=AutoTokenizer.from_pretrained(spec["folder"], padding_side="left"),
        train_dataset=Dataset.from_list(rows),
        callbacks=[steps],
        args=GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=rollouts,
            num_generations=spec["num_generations"],
            max_completion_length=spec["max_new_tokens"],
            max_steps=spec["steps"] + 1,
            bf16=True,
            use_cpu=on_cpu,
            beta=0.0,
            temperature=1.0,
            gradient_checkpointing=False,
            report_to=[],
            logging_steps=1,
            save_strategy="no",
            disable_tqdm=True,
        ),
    )
    trainer.train()
    return {"steps": steps.found[1:]}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stdout(sys.stderr):
        result = measure(json.loads(Path(sys.argv[1]).read_text()), scratch)
    print(json.dumps(result))
