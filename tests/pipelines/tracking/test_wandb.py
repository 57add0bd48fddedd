"""A run in W&B, by its real library: what is in it, over several sessions, and what happens when W&B does not work."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from pipelines.config.schema import TrackingConfig
from pipelines.dispatch.signals import Preempted
from pipelines.tracking.tracker import tracked
from tests.pipelines.records.test_journal import SAMPLE
from tests.pipelines.tracking.run import CONFIG, Run, children, curve, read_sessions, wait_until
from tests.pipelines.tracking.server import AnsweringServer, HangingServer
from tests.pipelines.tracking.test_samples import rollout


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


def step(number: int, **values: Any) -> dict[str, Any]:
    return {"step": number, "time": 1000.0 + number, "reward/mean": number / 10, "grad_norm": 1.0, **values}


def start(path: Path, **settings: Any) -> Run:
    return Run(path / "run", TrackingConfig(wandb=True, **{"timeout_s": 60.0, **settings}))


def test_a_run_of_three_sessions_is_one_run_with_every_step_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is killed, the second preempted with steps taken back, the third complete."""
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret")
    run = start(tmp_path, tags=("a", "b"), name="my run", sample_rows=3)
    with run.session():
        run.metrics.append([step(number) for number in (1, 2)])
        run.wait_for("offline")
        run.metrics.append([{"step": 2, "time": 1003.0, "eval/accuracy": 0.25}, step(3)])
        wait_until(lambda: curve(read_sessions(run.path), "reward/mean", "train/step")[-1:] == [(3, 0.3)])
        (child,) = children(f"tracking.process\0{run.path}")
        os.kill(child, signal.SIGKILL)
        run.metrics.append([step(4)])
    assert len(run.warnings) == 1
    assert "W&B is off: its process ended unexpectedly" in run.warnings[0]

    with pytest.raises(SystemExit), run.session():
        (run.path / "metrics.jsonl").unlink()
        run.metrics = type(run.metrics)(run.path / "metrics.jsonl")
        run.metrics.append([step(1), step(2), step(3, late=1.0)])
        raise Preempted
    with run.session() as tracker:
        run.metrics.append([step(4), step(5)])
        run.complete(tracker, [rollout(number) for number in range(9)])
    assert not run.warnings, run.warnings

    sessions = read_sessions(run.path)
    assert len({session.run_id for session in sessions}) == 1
    assert [session.exit_code for session in sessions] == [None, 143, 0]
    assert [session.preempting for session in sessions] == [False, True, False]
    assert curve(sessions, "reward/mean", "train/step") == [(number, number / 10) for number in range(1, 6)]
    assert curve(sessions, "late", "train/step") == [(3, 1.0)]
    assert curve(sessions, "eval/accuracy", "eval/step") == [(2, 0.25)]
    steps = [row["_step"] for session in sessions for row in session.history]
    assert steps == sorted(set(steps))
    times = [row["_timestamp"] for session in sessions for row in session.history if "reward/mean" in row]
    assert times == [1000.0 + number for number in range(1, 6)]
    last = sessions[-1]
    assert last.axes["reward/*"] == last.axes["grad_norm"] == "train/step"
    assert sessions[0].axes["eval/*"] == "eval/step"
    assert last.config["sampling"] == CONFIG["sampling"]
    assert last.config["provenance"]["command"] == "mathlete eval"
    assert last.summary["result/accuracy"] == 0.5
    assert last.summary["result/interval_95/low"] == 0.4
    (table,) = run.path.glob("wandb/offline-run-*/files/media/table/samples*.json")
    assert table.read_text().count("What is 1 + 1?") == 3
    files = b"".join(path.read_bytes() for path in (run.path / "wandb").rglob("*") if path.is_file())
    assert b"hf_very_secret" not in files


@pytest.mark.parametrize("later", [[3, 4], []], ids=["more to come", "nothing more"])
def test_a_killed_service_of_wandb_costs_at_most_a_second_of_points_which_come_again(
    tmp_path: Path, later: list[int]
) -> None:
    """That is what `ray job stop` does to every process below a job's driver."""
    run = start(tmp_path)
    with run.session() as tracker:
        run.metrics.append([step(1), step(2)])
        run.wait_for("offline")
        wait_until(lambda: len(curve(read_sessions(run.path), "reward/mean", "train/step")) == 2)
        (child,) = children(f"tracking.process\0{run.path}")
        (service,) = [pid for pid in children("wandb-core") if parent(pid) == child]
        os.kill(service, signal.SIGTERM)
        wait_until(lambda: parent(service) is None)
        run.metrics.append([step(number) for number in later])
        run.complete(tracker, [SAMPLE])
    assert not run.warnings, run.warnings
    sessions = read_sessions(run.path)
    assert [session.exit_code for session in sessions] == [None, 0]
    assert curve(sessions, "reward/mean", "train/step") == [(number, number / 10) for number in [1, 2, *later]]


def test_a_driver_that_is_killed_leaves_a_whole_run_behind(tmp_path: Path) -> None:
    run = start(tmp_path)
    driver = os.fork()
    if driver == 0:
        with run.session():
            run.metrics.append([step(1)])
            run.wait_for("offline")
            run.metrics.append([step(2)])
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(driver, 0)
    wait_until(lambda: any(session.exit_code is not None for session in read_sessions(run.path)))
    (session,) = read_sessions(run.path)
    assert curve([session], "reward/mean", "train/step") == [(1, 0.1), (2, 0.2)]
    assert session.exit_code == 1
    wait_until(lambda: not children(f"tracking.process\0{run.path}"))


def test_checkpoints_are_artifacts_once_each_without_the_trainers_state(tmp_path: Path) -> None:
    run = start(tmp_path, log_checkpoints=True)
    for number in (5, 10):
        folder = run.path / "checkpoints" / f"step_{number:06d}"
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(bytes(number))
        (folder / "trainer.safetensors").write_bytes(b"large")
        with run.session() as tracker:
            run.metrics.append([step(number)])
            run.complete(tracker)
    first, second = read_sessions(run.path)
    assert first.artifacts["model"] == [({"latest", "step_000005"}, {"model.safetensors"})]
    assert second.artifacts["model"] == [({"latest", "step_000010"}, {"model.safetensors"})]


def broken(tmp_path: Path, code: str) -> str:
    package = tmp_path / "broken" / "wandb"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(textwrap.dedent(code))
    return str(package.parent)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            "raise ImportError('No module named wandb')",
            "it is not installed (pip install wandb): No module named wandb",
        ),
        ("raise RuntimeError('a bad day')", "RuntimeError: a bad day"),
        ("import time; time.sleep(600)", "it did not begin within 2 s"),
        ("import os; os._exit(9)", "its process ended unexpectedly"),
    ],
    ids=["absent", "raising", "hanging", "dying"],
)
def test_without_a_wandb_that_works_the_run_ends_well_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, reason: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", broken(tmp_path, code))
    run = start(tmp_path, timeout_s=2.0)
    began = time.monotonic()
    with run.session() as tracker:
        run.metrics.append([step(1)])
        run.complete(tracker, [SAMPLE])
    assert time.monotonic() - began < 5
    assert len(run.warnings) == 1
    assert f"W&B is off: {reason}. The run goes on" in run.warnings[0]
    assert "Traceback" not in run.said.getvalue()
    assert not children(f"tracking.process\0{run.path}")


def test_a_wandb_that_hangs_at_its_end_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
        import time
        class UsageError(Exception): ...
        class Error(Exception): ...
        class errors: UsageError = UsageError
        Settings = dict
        class Run:
            id, offline, summary = "x", True, {}
            def log(self, *a, **k): ...
            def define_metric(self, *a, **k): ...
            def finish(self, **k): time.sleep(600)
        def init(**k): return Run()
    """
    monkeypatch.setenv("PYTHONPATH", broken(tmp_path, code))
    run = start(tmp_path, timeout_s=2.0)
    with run.session() as tracker:
        run.wait_for("offline")
        began = time.monotonic()
        run.complete(tracker)
    assert time.monotonic() - began < 4
    assert len(run.warnings) == 1
    assert "it did not finish within 2 s" in run.warnings[0]


def test_a_server_that_never_answers_leaves_an_offline_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = HangingServer()
    monkeypatch.setenv("WANDB_BASE_URL", server.address)
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    run = start(tmp_path, timeout_s=12.0)
    with run.session() as tracker:
        run.metrics.append([step(1)])
        run.complete(tracker)
    server.close()
    assert not run.warnings, run.warnings
    assert run.said.getvalue().count("offline (online failed: ") == 1
    assert "a" * 40 not in run.said.getvalue()
    assert curve(read_sessions(run.path), "reward/mean", "train/step") == [(1, 0.1)]


def test_an_online_run_that_resumes_sends_what_the_server_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first session is over at step 2; steps 3 and 4 are there before the second begins."""
    server = AnsweringServer()
    monkeypatch.setenv("WANDB_BASE_URL", server.address)
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    run = start(tmp_path)
    for numbers in ([1, 2], [3, 4, 5]):
        run.metrics.append([step(number) for number in numbers[:-1]])
        with run.session() as tracker:
            run.wait_for(f"{server.address}/me/mathlete/runs/")
            run.metrics.append([step(numbers[-1]), {"step": numbers[-1], "time": 1.0, "eval/accuracy": 0.5}])
            run.complete(tracker)
        assert not run.warnings, run.warnings
    server.close()
    assert len(server.runs) == 1
    assert [(row["train/step"], row["reward/mean"]) for row in server.history if "reward/mean" in row] == [
        (number, number / 10) for number in range(1, 6)
    ]
    assert [row["eval/step"] for row in server.history if "eval/accuracy" in row] == [2, 5]
    assert [row["_step"] for row in server.history] == list(range(len(server.history)))
    assert server.summary["result/accuracy"] == 0.5


def test_an_offline_run_of_two_sessions_is_synced_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = start(tmp_path)
    for numbers in ([1, 2], [3, 4]):
        with run.session() as tracker:
            run.metrics.append([step(number) for number in numbers])
            run.complete(tracker)
    server = AnsweringServer()
    monkeypatch.setenv("WANDB_BASE_URL", server.address)
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    sync = [sys.executable, "-m", "wandb", "sync", str(run.path / "wandb")]
    subprocess.run(sync, check=True, capture_output=True, timeout=60)
    server.close()
    assert len(server.runs) == 1
    assert [(row["_step"], row["train/step"]) for row in server.history] == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_nothing_is_started_where_nothing_is_asked_for(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", TrackingConfig())
    with tracked(run.config, "eval", run.folder, None) as tracker:  # type: ignore[arg-type]
        run.complete(tracker)
    assert not (run.path / "tracking").exists()


def parent(pid: int) -> int | None:
    """Of a living process."""
    try:
        state, owner = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return None if state == "Z" else int(owner)
