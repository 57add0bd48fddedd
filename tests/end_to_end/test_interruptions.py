"""Processes are killed, stopped and asked to end: nothing finished is lost, nothing counts twice."""

import contextlib
import json
import os
import random
import re
import signal
import time
from pathlib import Path

import pytest

from tests.end_to_end.command import SAMPLED, Started, mathlete, texts
from tests.pipelines.tracking.run import curve, read_sessions

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module", params=["greedy", "sampled"])
def undisturbed(
    request: pytest.FixtureRequest, settings: list[str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[str], dict]:
    """Settings and the texts that a run without trouble gives."""
    words = [*settings, *SAMPLED] if request.param == "sampled" else settings
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    done = mathlete(*words, f"run.dir={folder}")
    assert done.code == 0, done.err
    return words, texts(folder)


def test_killed_drivers_and_generators_leave_the_texts_unchanged(
    undisturbed: tuple[list[str], dict], tmp_path: Path
) -> None:
    words, expected = undisturbed
    folder = tmp_path / "run"
    draw = random.Random(len(expected["mini/algebra/01", 0]))

    first = Started(folder, *words)
    at_least = draw.randint(4, 12)
    first.wait_until(lambda: first.journal_lines() >= at_least)
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    kept = first.journal_lines()
    assert kept >= at_least

    second = Started(folder, *words, "generators.num_actors=2")
    second.wait_until(lambda: len(second.generator_pids()) >= 2 and second.journal_lines() >= kept + 4)
    victim = second.generator_pids()[-1]
    os.kill(victim, signal.SIGKILL)
    assert second.finish() == 0, second.output()
    (death,) = second.events("died")
    assert f"process {victim} on" in death["text"]
    assert "want of memory" in death["text"]
    assert texts(folder) == expected


def test_a_generator_that_hangs_is_replaced(settings: list[str], tmp_path: Path) -> None:
    run = Started(tmp_path / "run", *settings, "cluster.stall_timeout_s=6")
    pids = run.wait_until(lambda: run.journal_lines() >= 4 and run.generator_pids())
    os.kill(pids[0], signal.SIGSTOP)
    try:
        assert run.finish() == 0, run.output()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pids[0], signal.SIGKILL)
    (stall,) = run.events("stalled")
    assert re.match(r"did not answer for \d+ s while doing unit-\d+", stall["text"])
    assert len(texts(tmp_path / "run")) == 40


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_in_good_order_and_the_same_command_resumes(
    settings: list[str], tmp_path: Path, number: signal.Signals
) -> None:
    """Its curve in W&B has every point once, over both sessions."""
    tracked = [*settings, "tracking.wandb=true"]
    run = Started(tmp_path / "run", *tracked)
    run.wait_until(lambda: run.journal_lines() >= 8)
    asked = time.monotonic()
    os.killpg(run.process.pid, number)  # as a terminal or `ray job stop` does it: everyone gets it
    assert run.finish(30) == 143
    assert time.monotonic() - asked < 10
    assert f"stopped by {number.name}; to resume: mathlete eval" in run.output()
    assert "Traceback" not in run.output()
    kept = run.journal_lines()
    assert 8 <= kept < 40
    again = mathlete(*tracked, f"run.dir={tmp_path / 'run'}", "--json")
    assert (again.code, again.json["n"]) == (0, 40), again.err
    assert f"{kept} of 40 samples are there already" in again.err
    assert "is off" not in run.output() + again.err
    first, second = read_sessions(tmp_path / "run")
    assert (first.exit_code, second.exit_code) == (143, 0)
    assert first.preempting
    assert first.run_id == second.run_id
    points = curve([first, second], "eval/accuracy", "progress/done")
    steps = [step for step, _ in points]
    assert steps == sorted(set(steps))
    assert points[-1] == (40, again.json["accuracy"])
    assert second.summary["result/accuracy"] == again.json["accuracy"]
    assert second.config["sampling"]["max_new_tokens"] == 200
    (table,) = (tmp_path / "run" / "wandb").glob(f"offline-run-*-{second.run_id}/files/media/table/samples_*.json")
    assert len(json.loads(table.read_text())["data"]) == 40


def test_a_live_run_is_not_joined_by_a_second_one(settings: list[str], tmp_path: Path) -> None:
    run = Started(tmp_path / "run", *settings)
    run.wait_until(lambda: (tmp_path / "run" / "manifest.json").exists())
    second = mathlete(*settings, f"run.dir={tmp_path / 'run'}")
    assert second.code == 1
    assert f"is in use by a live run (pid {run.process.pid} on" in second.err
    run.process.send_signal(signal.SIGTERM)
    assert run.finish(60) == 143


@pytest.mark.parametrize("delay", [1.0, 2.0, 3.0])
def test_a_signal_while_ray_is_starting_is_a_stop_as_well(settings: list[str], tmp_path: Path, delay: float) -> None:
    run = Started(tmp_path / "run", *settings)
    run.wait_until(lambda: (tmp_path / "run" / "manifest.json").exists())
    time.sleep(delay)
    run.process.send_signal(signal.SIGTERM)
    assert run.finish(60) == 143, run.output()
    assert "Traceback" not in run.output()
