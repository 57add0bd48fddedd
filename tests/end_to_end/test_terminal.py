"""A real run on a real pseudo-terminal."""

from pathlib import Path

import pytest

from tests.end_to_end.command import COMMAND
from tests.pipelines.terminal.screen import Terminal

pytestmark = pytest.mark.ray


def test_a_terminal_shows_a_live_view_while_a_run_works_and_its_result_at_the_end(tmp_path: Path) -> None:
    words = [
        "model=mathlete-tiny",
        "data=builtin:arithmetic",
        "data.count=100",
        "sampling.max_new_tokens=128",
        "generation.batch_size=4",
        "generators.cpus_per_actor=1",
        "cluster.object_store_mb=80",
        f"run.dir={tmp_path / 'run'}",
    ]
    terminal = Terminal([*COMMAND, "eval", *words], columns=110)
    before = terminal.settings()
    terminal.read_until(lambda: "generator-0  CPU" in terminal.screen.text and " correct " in terminal.screen.text)
    text = terminal.screen.text
    assert "mathlete-tiny on builtin:arithmetic" in text
    assert text.count("/100 samples") == 1
    assert terminal.finish() == 0
    text = terminal.screen.text
    assert "/100 samples" not in text
    assert text.index("sampling: ") < text.index("generator-0: CPU on") < text.index("all  ")
    assert text.splitlines()[-1] == f"run folder: {tmp_path / 'run'} (complete)"
    assert terminal.settings() == before
