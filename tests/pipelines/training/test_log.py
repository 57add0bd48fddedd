"""What the log of a training run says, on devices that only take time."""

import io
import re
from pathlib import Path

from pipelines.config import GrpoConfig, load_config
from tests.actors.engine.tiny import save_checkpoint
from tests.pipelines.training.simulation import Simulation


def test_a_log_has_a_line_of_progress_at_most_every_ten_seconds(tmp_path: Path) -> None:
    """Steps of 1.5 s of generating by two devices and 5 s of learning: every other step is told of."""
    log = io.StringIO()
    words = [f"model={save_checkpoint(tmp_path / 'tiny')}", "data.count=40", "grpo.steps=30"]
    run = Simulation(
        load_config(GrpoConfig, None, [*words, "grpo.problems_per_step=6", "grpo.num_generations=4"]),
        tmp_path,
        generators=2,
        generate_s=lambda worker, unit: 0.5,
        learn_s=lambda step: 5.0,
        log=log,
    )
    seconds = run.run()
    text = log.getvalue()
    progress = [line for line in text.splitlines() if re.match(r"\d+/30 steps, ", line)]
    assert "\r" not in text
    assert seconds / 12 < len(progress) <= 1 + seconds / 10
    assert progress[0] == "0/30 steps, waiting for the learner, 1 starting, 2 starting"
    assert any("the learner is at work" in line for line in progress)
    assert any(re.search(r"step-\d+: \d+ of 24 completions", line) for line in progress)
    status = run.crew._status()
    assert (status.done, status.total) == (30, 30)
    assert [device.name for device in status.devices] == ["learner-0", "generator-0", "generator-1"]
    assert sum(status.verdicts.values()) == 24
