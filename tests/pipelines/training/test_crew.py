"""What the loop over all actors does with results that nobody waits for any more."""

from pathlib import Path

from pipelines.config import GrpoConfig, load_config
from tests.actors.engine.tiny import save_checkpoint
from tests.pipelines.training.simulation import Simulation


def test_what_was_begun_twice_is_recorded_once_and_its_late_half_is_dropped(tmp_path: Path) -> None:
    words = [f"model={save_checkpoint(tmp_path / 'tiny')}", "data.count=40", "grpo.steps=2"]
    (tmp_path / "run").mkdir()
    run = Simulation(
        load_config(GrpoConfig, None, words),
        tmp_path / "run",
        generators=2,
        generate_s=lambda worker, unit: 1.0 if worker.name == "generator-0" else 50.0,
        learn_s=lambda step: 500.0,
    )
    run.crew.start()
    run.crew.share_weights()
    run.crew.begin(run.grpo.rollouts.collection(0))
    run.run()
    assert run.crew.generators.idle
    assert len(run.journal.samples) == 2 * 64
    assert run.journal.duplicates == 0
