"""Both sides of a workload do the same work, and their parts add up to it."""

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from actors.models import ModelSpec
from pipelines.bench.children import ours, ours_serving, ours_steps
from pipelines.bench.measurement import Measurement
from pipelines.bench.rounds import RowResult, Trial
from pipelines.bench.serving import ServingRun
from pipelines.bench.traffic import poisson
from pipelines.bench.workload_table import workload_table
from pipelines.bench.workloads import BATCHED, ONE_BY_ONE, WORKLOADS, Supply
from tests.actors.engine.tiny import save_checkpoint
from tests.pipelines.bench.batches import simulated

PROMPTS = tuple(tuple(3 + (7 * place + 11 * step) % 250 for step in range(4 + place % 9)) for place in range(40))


@pytest.fixture(scope="module")
def supply(tmp_path_factory: pytest.TempPathFactory) -> Supply:
    folder = save_checkpoint(tmp_path_factory.mktemp("tiny"))
    return Supply(
        model=ModelSpec(str(folder), dtype="float32", device="cpu"),
        threads=1,
        prompts=PROMPTS,
        questions=[{"id": str(place), "prompt": list(ids), "answer": "1"} for place, ids in enumerate(PROMPTS)],
        examples=[(ids, ids[::-1]) for ids in PROMPTS],
        batch_size=4,
        max_new_tokens=20,
        samples=3,
        sample_tokens=12,
        rollout_tokens=6,
        steps=10,
        one_by_one=4,
    )


def trial(name: str, supply: Supply) -> Trial:
    return WORKLOADS[name].make(WORKLOADS[name], supply)


def measured(trial: Trial, number: int = 0) -> list[Measurement]:
    """Of each side, run here instead of in a child, from the words that a child would read."""
    children: dict[str, Any] = {"ours": ours, "ours_steps": ours_steps}
    runs = []
    for entrant in trial.entrants:
        script = entrant.command(Path("spec"))[2].rpartition(".")[2]
        spec = json.loads(json.dumps({**entrant.spec, **entrant.vary(number)}))
        runs.append(Measurement.read(children[script].measure(spec)))
    return runs


@pytest.mark.parametrize("name", ["evaluation", "self-consistency"])
def test_generated_one_by_one_are_some_of_the_same_completions(supply: Supply, name: str) -> None:
    batched, single = measured(trial(name, supply))
    assert 0 < len(single.lengths) < len(batched.lengths)
    assert single.lengths == batched.lengths[: len(single.lengths)]
    for run in (batched, single):
        assert sum(chunk[0] for chunk in run.chunks) == run.useful_tokens
        assert sum(chunk[1] for chunk in run.chunks) == pytest.approx(run.seconds, rel=0.02)
        assert not run.chunks[-1][2]
        assert run.limit_share is not None and 0 < run.limit_share < 1.5
    assert len(single.chunks) == len(single.lengths), "one by one, each completion is a part"
    assert batched.chunks[0][2], "the first part ends while others wait"


def test_rounds_take_different_problems(supply: Supply) -> None:
    batched, single = trial("evaluation", supply).entrants
    rounds = [batched.vary(number)["work"]["prompts"] for number in range(5)]
    assert sorted(prompt for each in rounds for prompt in each) == sorted(PROMPTS)
    assert all(single.vary(number)["work"]["prompts"] == rounds[number][:4] for number in range(5))


@pytest.mark.parametrize("name", ["grpo", "distillation"])
def test_training_one_by_one_and_batched_see_the_same_tokens(supply: Supply, name: str) -> None:
    """Of the first step: the rollouts of the second are of weights that differ by rounding, or by the number of updates."""
    batched, single = measured(trial(name, supply))
    assert len(batched.chunks) == len(single.chunks) == 2
    first = 64 if name == "grpo" else 16
    assert batched.lengths[:first] == single.lengths[:first]
    assert batched.chunks[0][0] == single.chunks[0][0] == sum(batched.lengths[:first])
    assert batched.limit_share is not None and 0 < batched.limit_share < 1.5


def run_of(lengths: list[int], batch_size: int, noise: random.Random) -> Measurement:
    chunks = [
        (tokens, seconds * noise.lognormvariate(0, 0.02), waits)
        for tokens, seconds, waits in simulated(lengths, batch_size)
    ]
    seconds = sum(chunk[1] for chunk in chunks)
    return Measurement(tuple(lengths), seconds, 2**30, chunks=tuple(chunks), peak_working=2**30, limit_share=0.5)


def test_two_samples_of_one_workload_agree_and_hold_the_truth_within_what_they_state(supply: Supply) -> None:
    """Against the whole, simulated: 500 problems in batches of 32 and one by one."""
    draw = random.Random(5)
    lengths = [min(512, round(draw.lognormvariate(5, 0.7))) for _ in range(500)]
    whole = {batch: sum(chunk[1] for chunk in simulated(lengths, batch)) for batch in (32, 1)}
    big = Supply(
        **{**{name: getattr(supply, name) for name in Supply.__slots__}, "prompts": PROMPTS * 13, "batch_size": 32}
    )
    row = trial("evaluation", big)
    held = agreed = 0
    for seed in range(40):
        noise = random.Random(seed)
        found = []
        for _ in range(2):
            sample = noise.sample(lengths, 96)
            found += row.judge([[run_of(sample, 32, noise)], [run_of(sample[:8], 1, noise)]])
        one, other = found
        held += one.low <= whole[1] / whole[32] <= one.high
        half = math.hypot(math.log(one.high / one.ratio), math.log(other.high / other.ratio))
        agreed += abs(math.log(one.ratio / other.ratio)) <= half
    assert held >= 36 and agreed >= 36


def test_the_table_shows_both_sides_with_the_speed_up(supply: Supply) -> None:
    noise = random.Random(1)
    row = trial("evaluation", supply)
    lengths = [20, 10, 15, 12, 20, 9, 14, 20]
    runs = {BATCHED: [run_of(lengths, 4, noise)], ONE_BY_ONE: [run_of(lengths[:4], 1, noise)]}
    result = RowResult(row, row.judge(list(runs.values())), dict(runs))
    text = workload_table([result, RowResult(trial("grpo", supply), failed="it broke\n  there")])
    single, batched, failed = text.splitlines()[1:4]
    assert single.split()[:5] == ["evaluation", "one", "by", "one", "1"]
    assert batched.split()[:2] == ["batched", "4"] and "missed" in batched and "50%" in batched
    assert failed.split() == ["grpo", "failed"] and "failed: it broke" in text
    assert json.loads(json.dumps(result.as_json()))["findings"][0]["details"]["sides"][ONE_BY_ONE]["batch"] == 1


@pytest.mark.parametrize("policy", ["continuous", "static"])
def test_requests_are_served_from_their_arrival_with_the_lengths_that_were_asked_for(
    supply: Supply, policy: str
) -> None:
    traffic = poisson(60.0, 1.0, PROMPTS, [2, 40], seed=1)
    spec = {
        "model": {"path": supply.model.path, "dtype": "float32", "device": "cpu"},
        "threads": 1, "batch_size": 16, "policy": policy,
        "traffic": [{name: getattr(traffic, name) for name in traffic.__slots__}],
    }  # fmt: skip
    run = ServingRun.read(json.loads(json.dumps(ours_serving.measure(spec))))
    (raw,) = run.raw
    assert raw["tokens"] == list(traffic.lengths)
    assert all(0 <= first <= last for first, last in zip(raw["first"], raw["last"], strict=True))
    (served,) = run.served
    assert 0 < served.occupancy <= 1
    blocked = sum(raw["blocked"])
    if policy == "continuous":
        assert blocked < 0.25 * sum(raw["last"]), "a free place is taken at the next step"
    else:
        assert blocked > 0.05 * sum(raw["last"]), "what arrives waits for the batch although places are free"
