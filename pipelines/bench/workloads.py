"""The four workloads, one by one and batched: what is sampled of each, and what the sample says of the whole."""

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from actors.models import ModelSpec
from pipelines.bench import children
from pipelines.bench.estimates import Estimate, extrapolated, mean_tokens, rate
from pipelines.bench.findings import Finding
from pipelines.bench.measurement import Measurement
from pipelines.bench.rounds import Entrant, Trial
from pipelines.bench.work import Ids, Work

BATCHED, ONE_BY_ONE = "batched", "one by one"

FULL_BATCHES = 2
"""A sample for batching has so many batches, so that there is a part in which every place is taken."""

TEMPERATURE = 0.6
PROBLEMS_A_STEP = 8
GENERATIONS = 8
EXAMPLES_A_STEP = 16
STEPS_A_ROUND = 2


@dataclass(frozen=True, slots=True)
class Supply:
    """What samples are drawn from, and how large the whole is."""

    model: ModelSpec
    threads: int
    prompts: tuple[Ids, ...]
    """Of the problems of an evaluation, in an order drawn at random."""
    questions: Sequence[Mapping[str, Any]]
    """Problems to train on by rewards: id, prompt, answer."""
    examples: Sequence[tuple[Ids, Ids]]
    """Prompts and solutions."""
    batch_size: int
    max_new_tokens: int
    samples: int
    sample_tokens: int
    """Most new tokens of one of several samples."""
    rollout_tokens: int
    """Most new tokens of a rollout."""
    steps: int
    """Of a whole training."""
    one_by_one: int
    """Problems of a round that are run one by one."""
    full: bool = False

    @property
    def training_steps(self) -> int:
        """Of a round."""
        return self.steps if self.full else STEPS_A_ROUND


@dataclass(frozen=True, slots=True)
class Workload:
    """A row of the table. `make` returns its trial."""

    name: str
    compares: str
    target: float
    make: Callable[["Workload", Supply], Trial]
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Whole:
    """What the sample stands for: `units`, each of `sequences` that are alike, drawn at random."""

    text: str
    units: int
    sequences: int
    batch: int


def evaluation(row: Workload, supply: Supply) -> Trial:
    """Greedy completions of problems."""
    whole = Whole(f"{len(supply.prompts)} problems", len(supply.prompts), 1, supply.batch_size)
    return _generating(row, supply, whole, supply.max_new_tokens, 0.0, supply.one_by_one)


def self_consistency(row: Workload, supply: Supply) -> Trial:
    """Several samples of each problem."""
    text = f"{len(supply.prompts)} problems x {supply.samples} samples"
    whole = Whole(text, len(supply.prompts), supply.samples, supply.batch_size)
    few = max(2, supply.one_by_one // 4)
    return _generating(row, supply, whole, supply.sample_tokens, TEMPERATURE, few)


def grpo(row: Workload, supply: Supply) -> Trial:
    """Rollouts, rewards and update."""
    rollouts = PROBLEMS_A_STEP * GENERATIONS
    shared = {
        "workload": "grpo",
        "num_generations": GENERATIONS,
        "max_new_tokens": supply.rollout_tokens,
        "steps": supply.training_steps,
    }

    def vary(number: int) -> dict[str, Any]:
        first = number * supply.training_steps
        return {"problems": _steps(supply.questions, first, supply.training_steps, PROBLEMS_A_STEP), "seed": first}

    whole = Whole(f"{supply.steps} steps", supply.steps * PROBLEMS_A_STEP, GENERATIONS, rollouts)
    return _training(row, supply, whole, shared, vary, {"batch_size": rollouts}, {"batch_size": 1})


def distillation(row: Workload, supply: Supply) -> Trial:
    """Updates towards solutions."""
    if not supply.examples:
        return Trial(row.name, row.compares, missing="no solution fits into the model's context")
    shared = {"workload": "distill", "steps": supply.training_steps}

    def vary(number: int) -> dict[str, Any]:
        first = number * supply.training_steps
        return {"examples": _steps(supply.examples, first, supply.training_steps, EXAMPLES_A_STEP)}

    whole = Whole(f"{supply.steps} steps", supply.steps * EXAMPLES_A_STEP, 1, EXAMPLES_A_STEP)
    together, single = {"examples_an_update": EXAMPLES_A_STEP}, {"examples_an_update": 1}
    return _training(row, supply, whole, shared, vary, together, single)


WORKLOADS: Mapping[str, Workload] = {
    row.name: row
    for row in (
        Workload("evaluation", "greedy completions of all problems", 15.0, evaluation),
        Workload("self-consistency", "several samples of each problem, temperature 0.6", 6.0, self_consistency),
        Workload(
            "grpo",
            f"steps of {PROBLEMS_A_STEP} problems x {GENERATIONS} rollouts with one update; one by one: a rollout at a "
            "time, and gradients of a rollout at a time",
            3.6,
            grpo,
        ),
        Workload(
            "distillation",
            f"updates of {EXAMPLES_A_STEP} solutions each; one by one: an update for every solution",
            2.0,
            distillation,
        ),
    )
}


def _generating(
    row: Workload, supply: Supply, whole: Whole, most_new_tokens: int, temperature: float, one_by_one: int
) -> Trial:
    count = len(supply.prompts)
    together = count if supply.full else min(count, max(1, -(-FULL_BATCHES * supply.batch_size // whole.sequences)))
    alone = count if supply.full else min(together, one_by_one)

    def work(number: int, some: int, batch_size: int) -> dict[str, Any]:
        first = number * together
        prompts = tuple(supply.prompts[(first + place) % count] for place in range(some))
        made = Work(prompts, most_new_tokens, batch_size, samples=whole.sequences, temperature=temperature)
        return {"work": asdict(made)}

    settings = {"settings": {"policy": "continuous", "limits": True}}
    sides = [
        _entrant(BATCHED, "ours", supply, settings, lambda number: work(number, together, supply.batch_size)),
        _entrant(ONE_BY_ONE, "ours", supply, settings, lambda number: work(number, alone, 1)),
    ]
    less = f"a round has {together} problems, one by one {alone}, of {whole.text}" if alone < count else ""
    if count < 2:
        return Trial(row.name, row.compares, missing="one problem is no sample: choose data with more of them")
    return Trial(row.name, row.compares, sides, partial(_judge, row, whole), less)


def _training(
    row: Workload,
    supply: Supply,
    whole: Whole,
    shared: Mapping[str, Any],
    vary: Callable[[int], Mapping[str, Any]],
    together: Mapping[str, Any],
    single: Mapping[str, Any],
) -> Trial:
    batched = {**shared, **together, "token_budget": None, "share_prompts": True}
    # A row above the budget stands alone: with a budget of 1 every row does.
    alone = {**shared, **single, "token_budget": 1, "share_prompts": False}
    sides = [
        _entrant(BATCHED, "ours_steps", supply, batched, vary),
        _entrant(ONE_BY_ONE, "ours_steps", supply, alone, vary),
    ]
    less = "" if supply.full else f"a round has {STEPS_A_ROUND} of {supply.steps} steps"
    return Trial(row.name, row.compares, sides, partial(_judge, row, whole), less)


def _entrant(
    label: str, script: str, supply: Supply, settings: Mapping[str, Any], vary: Callable[[int], Mapping[str, Any]]
) -> Entrant:
    command = [sys.executable, "-m", f"{children.__name__}.{script}"]
    spec = {"model": asdict(supply.model), "threads": supply.threads, **settings}
    return Entrant(label, spec, lambda file: [*command, str(file)], Measurement.read, vary)


def _steps(items: Sequence[Any], first: int, count: int, size: int) -> list[list[Any]]:
    return [
        [items[(step * size + place) % len(items)] for place in range(size)] for step in range(first, first + count)
    ]


def _judge(row: Workload, whole: Whole, runs: Sequence[Sequence[Measurement]]) -> list[Finding]:
    """What both sides would take for the whole, and how many times as fast batching is."""
    batched, single = runs
    tokens = _whole_tokens(whole, batched)
    certain = Estimate(tokens.value, 0.0)
    sides = [(BATCHED, whole.batch, batched), (ONE_BY_ONE, 1, single)]
    speed_up = extrapolated(_chunks(single), certain).over(extrapolated(_chunks(batched), certain))
    found = {label: _side(batch, side, tokens) for label, batch, side in sides}
    details = {"whole": whole.text, "tokens": tokens.as_json(), "sides": found}
    ours, peer = (found[label]["seconds"]["value"] / 60 for label in (BATCHED, ONE_BY_ONE))
    return [
        Finding(
            "time for the whole",
            "min",
            ours,
            peer,
            speed_up.value,
            speed_up.low,
            speed_up.high,
            row.target,
            details=details,
            notes=(f"tokens in all: {tokens.value:,.0f}",),
        )
    ]


def _side(batch: int, runs: Sequence[Measurement], tokens: Estimate) -> dict[str, Any]:
    shares = [run.limit_share for run in runs if run.limit_share is not None]
    return {
        "batch": batch,
        "seconds": extrapolated(_chunks(runs), tokens).as_json(),
        "tokens_per_s": rate(_chunks(runs)).as_json(),
        "peak_resident": max(run.peak_working for run in runs),
        "peak_device": max((run.peak_device for run in runs if run.peak_device is not None), default=None),
        "limit_share": sum(shares) / len(shares) if shares else None,
        "tokens_measured": sum(run.useful_tokens for run in runs),
    }


def _chunks(runs: Sequence[Measurement]) -> list[tuple[tuple[int, float, bool], ...]]:
    return [run.chunks for run in runs]


def _whole_tokens(whole: Whole, runs: Sequence[Measurement]) -> Estimate:
    """Of all units, from those that were run batched."""
    size = whole.sequences
    units = [sum(run.lengths[first : first + size]) for run in runs for first in range(0, len(run.lengths), size)]
    mean = mean_tokens(units, whole.units)
    return Estimate(mean.value * whole.units, mean.error)


def shuffled(items: Sequence[Any]) -> list[Any]:
    """In an order drawn at random, the same each time."""
    order = list(items)
    random.Random(0).shuffle(order)
    return order
