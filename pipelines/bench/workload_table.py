"""`mathlete bench table`: the four workloads one by one against batched, for a model on this machine."""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.bench.data import default_source
from pipelines.bench.machine import usable_cores
from pipelines.bench.part import positive
from pipelines.bench.result import Result
from pipelines.bench.rounds import RowResult, measure
from pipelines.bench.table import columns
from pipelines.bench.work import room
from pipelines.bench.workloads import BATCHED, ONE_BY_ONE, WORKLOADS, Supply, shuffled
from pipelines.config import EvalConfig, GrpoConfig, load_config
from pipelines.problems.sources import ARITHMETIC
from pipelines.terminal.console import Console

HELP = "the four workloads, one by one against batched: time, memory, tokens a second, share of the physical limit"

MOST_ROUNDS = 20
TRAINING_PROBLEMS = 1000
HEADS = ("workload", "mode", "batch", "time", "memory", "device", "tokens/s", "of limit", "speed-up", "target")

ROWS = WORKLOADS


def add_options(parser: argparse.ArgumentParser) -> None:
    """Model, data, and how much of the work is measured."""
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="of an evaluation: its model, prompt and data are used"
    )
    parser.add_argument("--model", help="folder, hub id or built-in model (default smollm2-135m)")
    parser.add_argument(
        "--data", help="as in `mathlete eval` (default MATH-500 where there is a local copy, else builtin:arithmetic)"
    )
    parser.add_argument("--limit", metavar="N", help="the whole is the first N problems only")
    parser.add_argument(
        "--minutes",
        type=float,
        default=20.0,
        metavar="M",
        help="time for all rows together; a first round of each is always run (default 20)",
    )
    parser.add_argument("--full", action="store_true", help="all of the work instead of a sample, once; takes hours")
    parser.add_argument("--batch-size", type=positive, default=64, metavar="N", help="rows at once (default 64)")
    parser.add_argument("--samples", type=positive, default=8, metavar="N", help="of a problem (default 8)")
    parser.add_argument(
        "--max-new-tokens", type=positive, default=512, metavar="N", help="of a completion (default 512)"
    )
    parser.add_argument(
        "--sample-tokens", type=positive, default=256, metavar="N", help="of one of several samples (default 256)"
    )
    parser.add_argument("--rollout-tokens", type=positive, default=64, metavar="N", help="of a rollout (default 64)")
    parser.add_argument("--steps", type=_several, default=100, metavar="N", help="of a training (default 100)")
    parser.add_argument(
        "--one-by-one-problems", type=_several, default=8, metavar="N", help="that a round runs one by one (default 8)"
    )
    parser.add_argument("--threads", type=positive, default=usable_cores(), metavar="N", help="default: all cores")


def run(options: argparse.Namespace, names: Sequence[str], console: Console) -> Result:
    """Measure the rows. Raises ConfigError, ProblemError, PromptError and ModelError before anything runs."""
    supply, facts = _supply(options)
    rounds, budget = (1, None) if options.full else (MOST_ROUNDS, 60 * options.minutes / len(names))
    results = [
        measure(WORKLOADS[name].make(WORKLOADS[name], supply), rounds, options.timeout_s, console, budget)
        for name in names
    ]
    return Result(facts, results, workload_table(results), options.threads)


def workload_table(results: Sequence[RowResult]) -> str:
    """Two lines a workload, and below them what is to be known of each."""
    lines = [HEADS, *(line for result in results for line in _lines(result))]
    return "\n".join(
        [*columns(lines), "", *(f"{result.trial.name}: {note}" for result in results for note in _notes(result))]
    )


def _lines(result: RowResult) -> list[tuple[str, ...]]:
    if not result.findings:
        why = "failed" if result.failed else "not measured"
        return [(result.trial.name, why, *[""] * (len(HEADS) - 2))]
    (finding,) = result.findings
    ratio = f"{finding.ratio:.1f} x"
    if math.isfinite(finding.high):
        ratio += f" ({finding.low:.1f} to {finding.high:.1f})"
    target = f">= {finding.target:g}, {'held' if finding.held else 'missed'}"
    lines: list[tuple[str, ...]] = []
    for label in (ONE_BY_ONE, BATCHED):
        side: Mapping[str, Any] = finding.details["sides"][label]
        device = "" if side["peak_device"] is None else _gib(side["peak_device"])
        share = "" if side["limit_share"] is None else f"{side['limit_share']:.0%}"
        speed = f"{side['tokens_per_s']['value']:.0f}"
        name = result.trial.name if label == ONE_BY_ONE else ""
        cost = (_minutes(side["seconds"]), _gib(side["peak_resident"]), device, speed, share)
        lines.append((name, label, str(side["batch"]), *cost, *(("", "") if label == ONE_BY_ONE else (ratio, target))))
    return lines


def _notes(result: RowResult) -> list[str]:
    notes = [result.trial.compares]
    if result.findings:
        details = result.findings[0].details
        rounds = len(next(iter(result.runs.values())))
        notes.append(f"the whole is {details['whole']}, {details['tokens']['value']:,.0f} tokens")
        if result.trial.less:
            notes.append(f"sample: {rounds} round(s); {result.trial.less}")
    if result.trial.missing:
        notes.append(f"not measured: {result.trial.missing}")
    if result.failed:
        notes.append(f"failed: {result.failed.splitlines()[0]}")
    return notes


def _minutes(seconds: Mapping[str, float | None]) -> str:
    value, low, high = seconds["value"], seconds["low"], seconds["high"]
    assert value is not None
    interval = "" if low is None or high is None else f" ({low / 60:.3g} to {high / 60:.3g})"
    return f"{value / 60:.3g} min{interval}"


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def _several(text: str) -> int:
    number = positive(text)
    if number < 2:
        raise argparse.ArgumentTypeError("must be at least 2: one alone has no spread")
    return number


def _supply(options: argparse.Namespace) -> tuple[Supply, dict[str, Any]]:
    from pipelines import task
    from pipelines.problems import DataSource, describe_source, load_problems
    from pipelines.training.examples import examples_of

    words = {"model.name": options.model, "data.source": options.data, "data.limit": options.limit}
    if options.config is None and options.data is None:
        words["data.source"] = default_source()
    overrides = [f"{key}={json.dumps(value)}" for key, value in words.items() if value is not None]
    config = load_config(EvalConfig, options.config, overrides)
    subject = task.Subject(config)
    problems = shuffled(task.selected_problems(config.data))
    prompts = {problem.id: subject.prompts.build(problem) for problem in problems}
    training = load_problems(DataSource(ARITHMETIC, GrpoConfig().data.split, count=TRAINING_PROBLEMS))
    built = {problem.id: subject.prompts.build(problem) for problem in training}
    solved = [problem for problem in problems if problem.solution]
    learnt = solved or training
    found = examples_of(learnt, prompts | built, subject.tokenizer, subject.context_length, "drop")
    ids = tuple(tuple(prompt.token_ids) for prompt in prompts.values())
    supply = Supply(
        model=subject.model,
        threads=options.threads,
        prompts=ids,
        questions=[
            {"id": problem.id, "prompt": built[problem.id].token_ids, "answer": problem.answer} for problem in training
        ],
        examples=[(example.prompt_ids, example.answer_ids) for example in found.examples],
        batch_size=options.batch_size,
        max_new_tokens=room(subject.context_length, ids, options.max_new_tokens),
        samples=options.samples,
        sample_tokens=room(subject.context_length, ids, options.sample_tokens),
        rollout_tokens=options.rollout_tokens,
        steps=options.steps,
        one_by_one=options.one_by_one_problems,
        full=options.full,
    )
    source = describe_source(task.data_source(config.data))
    facts = {
        "model": config.model.name,
        "data": source,
        "training_data": ARITHMETIC,
        "solutions": source if solved else ARITHMETIC,
        "full": options.full,
        "minutes": options.minutes,
        "batch_size": options.batch_size,
    }
    return supply, facts
