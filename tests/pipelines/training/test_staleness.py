"""Generation may run ahead of the learner, and never further than allowed."""

import random
from pathlib import Path

import pytest

from pipelines.config import GrpoConfig, load_config
from tests.actors.engine.tiny import save_checkpoint
from tests.pipelines.training.simulation import Simulation


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_checkpoint(tmp_path_factory.mktemp("tiny"))


def config(checkpoint: Path, *words: str) -> GrpoConfig:
    return load_config(
        GrpoConfig,
        None,
        [f"model={checkpoint}", "data.count=40", "grpo.problems_per_step=8", "grpo.num_generations=4", *words],
    )


@pytest.mark.parametrize("max_staleness", [0, 1, 3])
@pytest.mark.parametrize("slow", ["learner", "one generator", "everything at random"])
def test_no_rollout_is_older_than_allowed(checkpoint: Path, tmp_path: Path, max_staleness: int, slow: str) -> None:
    draw = random.Random(max_staleness)
    chaos = slow == "everything at random"
    run = Simulation(
        config(checkpoint, "grpo.steps=30", f"grpo.max_staleness={max_staleness}"),
        tmp_path,
        generators=3,
        generate_s=lambda worker, unit: (
            draw.expovariate(1) if chaos else 9.0 if slow == "one generator" and worker.name == "generator-0" else 1.0
        ),
        learn_s=lambda step: draw.expovariate(0.2) if chaos else 40.0 if slow == "learner" else 1.0,
    )
    run.run()
    staleness = [
        version - rollout.policy_version
        for version, groups in run.trained
        for group in groups
        for rollout in group.rollouts
    ]
    assert len(staleness) == 30 * 32
    assert min(staleness) >= 0
    assert max(staleness) == max_staleness


def test_running_one_step_ahead_is_half_again_as_fast_when_phases_are_balanced(
    checkpoint: Path, tmp_path: Path
) -> None:
    seconds = {}
    for max_staleness in (0, 1):
        folder = tmp_path / str(max_staleness)
        folder.mkdir()
        run = Simulation(
            config(checkpoint, "grpo.steps=40", f"grpo.max_staleness={max_staleness}"),
            folder,
            generators=2,
            generate_s=lambda worker, unit: 2.0,  # 8 units over 2 generators: 8 s a step
            learn_s=lambda step: 8.0,
        )
        seconds[max_staleness] = run.run()
    assert seconds[0] / seconds[1] > 1.5
