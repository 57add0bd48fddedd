"""Run folders as the jobs leave them, for tests of what reads them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pipelines.problems import Problem
from pipelines.records.journal import Sample
from pipelines.records.problems import write_problems


def problem(number: int, **changes: Any) -> Problem:
    text, answer = f"What is ${number} + {number}$?", str(2 * number)
    return replace(Problem(f"p{number}", text, answer, ("Algebra", "Geometry")[number % 2], number % 5 + 1), **changes)


def sample(of: Problem, index: int = 0, verdict: str = "correct", **changes: Any) -> Sample:
    right = verdict == "correct"
    values: dict[str, Any] = {
        "problem_id": of.id,
        "sample_index": index,
        "prompt_hash": "hash",
        "completion": rf"So it is $\boxed{{{of.answer if right else 'x'}}}$.",
        "num_tokens": 12,
        "finish_reason": "eos",
        "answer": of.answer if right else "x",
        "gold": of.answer,
        "verdict": verdict,
        "reason": "same text" if right else "not the same value",
        "subject": of.subject,
        "level": of.level,
        "first_token_s": 0.1,
        "seconds": 0.5,
        **changes,
    }
    return Sample(**values)


def evaluation_run(
    folder: Path,
    problems: Sequence[Problem],
    samples: Iterable[Sample],
    *,
    n: int = 1,
    status: str | None = "complete",
    fingerprint: str = "problems",
    **identity: Any,
) -> Path:
    """A run of `mathlete eval`; without a `status` it has no summary, as one that was killed."""
    rows = list(samples)
    folder.mkdir(parents=True, exist_ok=True)
    config = {"model": {"name": "a/model"}, "data": {"source": "a/dataset"}, "sampling": {"n": n, "max_new_tokens": 16}}
    manifest = {
        "created": "2026-01-02T03:04:05+0000",
        "identity": {"fingerprint.problems": fingerprint, "sampling.n": n, **identity},
        "provenance": {"command": "mathlete eval", "versions": {"torch": "2"}},
        "config": config,
    }
    write(folder / "manifest.json", manifest)
    write_problems(folder / "problems.jsonl", problems)
    write_lines(folder / "samples.jsonl", map(asdict, rows))
    correct = sum(row.verdict == "correct" for row in rows)
    planned = len(problems) * n
    progress = [
        {
            "time": 1000.0 + done,
            "progress/done": done,
            "progress/total": planned,
            "eval/accuracy": correct / max(1, len(rows)),
            "gen/tokens_per_s": 100.0,
        }
        for done in range(1, len(rows) + 1)
    ]
    write_lines(folder / "metrics.jsonl", progress)
    write_lines(
        folder / "events.jsonl", [{"time": 1000.0, "kind": "ready", "worker": "generator-0", "text": "is ready"}]
    )
    if status:
        found = {
            "status": status,
            "n": len(rows),
            "planned": planned,
            "accuracy": correct / len(rows),
            "interval_95": [0.1, 0.9],
        }
        write(folder / "summary.json", found)
    return folder


def training_run(folder: Path, *, steps: int = 4, done: int = 4, status: str | None = "complete") -> Path:
    """A run of `mathlete grpo` with 2 problems of 2 rollouts a step, and an evaluation on 3 problems every 2 steps."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "model": {"name": "a/model"},
        "data": {"source": "a/dataset"},
        "grpo": {"steps": steps, "problems_per_step": 2, "num_generations": 2},
    }
    identity = {"fingerprint.problems": "train", "fingerprint.held_out": "problems"}
    write(folder / "manifest.json", {"created": "", "identity": identity, "provenance": {}, "config": config})
    problems = [problem(number) for number in range(2)]
    write_problems(folder / "problems.jsonl", problems)
    metrics: list[dict[str, Any]] = []
    rollouts: list[dict[str, Any]] = []
    for step in range(1, done + 1):
        shown = {
            "reward/mean": step / 10,
            "loss/policy": 0.0,
            "time/step": 1.0,
            "something/else": 7.0,
            "kl": float("nan"),
        }
        metrics.append({"step": step, "time": 1000.0 + step, **shown})
        rollouts += [rollout(step - 1, each, index) for each in problems for index in range(2)]
    write_lines(folder / "metrics.jsonl", metrics)
    write_lines(folder / "rollouts.jsonl", rollouts)
    held_out = [problem(number) for number in range(10, 13)]
    (folder / "evaluations").mkdir(exist_ok=True)
    write_problems(folder / "evaluations" / "problems.jsonl", held_out)
    evaluations = []
    for step in range(0, done + 1, 2):
        verdicts = ["correct" if place * 2 < step else "wrong" for place in range(3)]
        rows = [sample(each, verdict=verdict) for each, verdict in zip(held_out, verdicts, strict=True)]
        write_lines(folder / "evaluations" / f"step_{step:06d}.jsonl", map(asdict, rows))
        share = verdicts.count("correct") / 3
        cell = {"n": 3, "accuracy": share, "interval_95": [0.0, 0.9]}
        evaluations.append({"step": step, **cell, "by_subject": {"Algebra": cell}, "by_level": {}})
    write_lines(folder / "evaluations.jsonl", evaluations)
    if status:
        write(folder / "summary.json", {"status": status, "steps": steps, "done": done})
    return folder


def rollout(step: int, of: Problem, index: int) -> dict[str, Any]:
    own = {"token_ids": [1, 2, 3], "sampling_logprobs": [-0.1] * 3, "reward": 1.0, "step": step, "policy_version": step}
    shared = asdict(sample(of, index))
    left_out = ("num_tokens", "mean_logprob")
    return {**{name: value for name, value in shared.items() if name not in left_out}, **own}


def write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content))


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
