"""Runs in which something is killed, or stopped for longer than the stall limit, at a random moment.

`MATHLETE_CHAOS_RUNS` says how many (5), `MATHLETE_CHAOS_SEED` from which seed on (0).
"""

import contextlib
import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.command import Started, mathlete, processes_of, read_samples, texts

pytestmark = [pytest.mark.ray, pytest.mark.soak]

RUNS, SEED = int(os.environ.get("MATHLETE_CHAOS_RUNS", "5")), int(os.environ.get("MATHLETE_CHAOS_SEED", "0"))
VICTIMS = ("driver", "generator", "grader", "grading child", "raylet")
STALL_S = 8.0
SAMPLES = 300
METRICS = (
    "n",
    "correct",
    "accuracy",
    "interval_95",
    "verdicts",
    "tokens",
    "by_level",
    "by_subject",
    "fault_share",
    "duplicates",
)
WORDS = [
    "model=mathlete-tiny",
    "model.dtype=float32",
    "model.device=cpu",
    "data=builtin:arithmetic",
    f"data.count={SAMPLES}",
    "sampling.max_new_tokens=128",
    "generation.batch_size=2",
    "generators.num_actors=2",
    "generators.cpus_per_actor=1",
    f"cluster.stall_timeout_s={STALL_S}",
    "cluster.object_store_mb=80",
]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[tuple[str, int], str], dict[str, Any]]:
    """Texts and metrics of a run without trouble."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    done = mathlete(*WORDS, f"run.dir={folder}")
    assert done.code == 0, done.err
    return texts(folder), metrics(folder)


def metrics(folder: Path) -> dict[str, Any]:
    summary = json.loads((folder / "summary.json").read_text())
    return {name: summary[name] for name in METRICS}


def victim_of(run: Started, kind: str, draw: random.Random) -> int:
    """A process that is there now."""
    if kind == "driver":
        return run.process.pid
    if kind == "raylet":
        return next(
            pid for pid, line in processes_of(run.mark).items() if line.split(" ")[0].endswith("/raylet/raylet")
        )
    reports = [event["report"] for event in run.events("ready") if event["worker"].startswith(kind[:4])]
    if kind == "generator":
        return draw.choice(reports)["placement"]["pid"]
    return draw.choice(reports)["pid" if kind == "grader" else "child_pid"]


@pytest.mark.parametrize("seed", range(SEED, SEED + RUNS))
def test_whatever_is_killed_or_stopped_no_sample_is_lost_or_counted_twice(
    seed: int, undisturbed: tuple[dict[tuple[str, int], str], dict[str, Any]], tmp_path: Path
) -> None:
    draw = random.Random(seed)
    kind = VICTIMS[seed % len(VICTIMS)]
    number = draw.choice([signal.SIGKILL, signal.SIGSTOP])
    moment = draw.randrange(1, SAMPLES - 60)
    run = Started(tmp_path / "run", *WORDS)
    run.wait_until(lambda: run.journal_lines() >= moment and run.generator_pids(), seconds=300)
    victim = victim_of(run, kind, draw)
    print(f"seed {seed}: {number.name} to {kind} {victim} after {run.journal_lines()} samples")
    os.kill(victim, number)
    if number == signal.SIGSTOP:
        time.sleep(STALL_S + 6)
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGCONT)
    again, code = 0, run.finish(300)
    while code != 0:
        assert again < 3, run.output()
        run.assert_gone()
        run = Started(tmp_path / "run", *WORDS)
        code, again = run.finish(300), again + 1
    print(f"seed {seed}: complete after {again} more run(s)")
    assert len(read_samples(tmp_path / "run")) == SAMPLES
    assert texts(tmp_path / "run") == undisturbed[0]
    assert metrics(tmp_path / "run") == undisturbed[1]
