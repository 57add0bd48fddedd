"""Real jobs on a real head: how they end is what `mathlete submit` exits with, and a stopped one is resumed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray.job_submission import JobStatus, JobSubmissionClient

from pipelines.dispatch.jobs import JobServer
from tests.end_to_end.command import ROOT, Started, read_samples
from tests.end_to_end.head import Head

pytestmark = pytest.mark.ray

COMMON = [
    "model=mathlete-tiny",
    "data=builtin:arithmetic",
    "generators.cpus_per_actor=1",
    "sampling.max_new_tokens=128",
]
EVAL = ["eval", *COMMON, "data.count=300", "generation.batch_size=1"]
GRPO = ["grpo", *COMMON, "data.levels=[5]", "data.count=200", "learner.cpus=1", "evaluation.every=0", "grpo.steps=12"]
GRPO += ["grpo.problems_per_step=4", "grpo.num_generations=4", "checkpoints.every=2", "sampling.temperature=1.0"]


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    head = Head(cpus=3)
    yield head
    head.close()


@pytest.fixture(scope="module")
def client(head: Head) -> JobSubmissionClient:
    return JobSubmissionClient(head.address)


def submit(head: Head, folder: Path, words: list[str], name: str, journal: str) -> Started:
    """`mathlete submit`, which goes on under pytest's eyes."""
    options = ["--address", head.address, "--submission-id", name]
    return Started(folder, *options, "--", *words, job="submit", journal=journal)


def test_a_followed_evaluation_goes_on_without_its_follower_and_is_resumed_by_plain_ray(
    head: Head, client: JobSubmissionClient, tmp_path: Path
) -> None:
    run = submit(head, tmp_path / "run", EVAL, "first", "samples.jsonl")
    run.wait_until(lambda: run.journal_lines() >= 5)
    run.process.send_signal(signal.SIGINT)
    assert run.finish(20) == 130
    assert f"ray job stop --address {head.address} first" in run.output()
    assert client.get_job_status("first") == JobStatus.RUNNING

    client.stop_job("first")
    JobServer(head.address).follow("first", lambda text: None)
    assert JobServer(head.address).outcome("first") == ("was stopped", 143)
    kept = read_samples(tmp_path / "run")
    assert 5 <= len(kept) < 300
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["status"] == "preempted"

    again = [
        head.bin / "ray",
        "job",
        "submit",
        f"--address={head.address}",
        "--working-dir=.",
        "--submission-id=second",
    ]
    again += ["--runtime-env=configs/cluster/runtime_env.yaml", "--", "python", "-m", "pipelines", *EVAL]
    done = subprocess.run(
        [*again, f"run.dir={tmp_path / 'run'}"], cwd=ROOT, capture_output=True, text=True, timeout=240
    )
    assert client.get_job_status("second") == JobStatus.SUCCEEDED, done.stdout + done.stderr
    assert f"{len(kept)} of 300 samples are there already" in done.stdout
    keys = [(row["problem_id"], row["sample_index"]) for row in read_samples(tmp_path / "run")]
    assert len(set(keys)) == len(keys) == 300
    assert read_samples(tmp_path / "run")[: len(kept)] == kept


def test_training_that_is_stopped_ends_its_follower_with_143_and_completes_when_submitted_again(
    head: Head, client: JobSubmissionClient, tmp_path: Path
) -> None:
    run = submit(head, tmp_path / "run", GRPO, "third", "rollouts.jsonl")
    run.wait_until(lambda: run.journal_lines() >= 3 * 16)
    client.stop_job("third")
    assert run.finish(60) == 143, run.output()
    assert "to resume: mathlete submit" in run.output()
    assert client.get_job_status("third") == JobStatus.STOPPED
    again = submit(head, tmp_path / "run", GRPO, "fourth", "rollouts.jsonl")
    assert again.finish() == 0, again.output()
    assert "fourth succeeded" in again.output()
    rows = [json.loads(line) for line in (tmp_path / "run" / "rollouts.jsonl").read_text().splitlines()]
    keys = {(row["step"], row["problem_id"], row["sample_index"]) for row in rows}
    assert len(keys) == len(rows) == 12 * 16


def test_the_exit_code_is_the_one_of_the_command_in_the_job(head: Head) -> None:
    server = JobServer(head.address)
    said: list[str] = []
    name = server.submit("echo only this; exit 3", {}, None)
    server.follow(name, said.append)
    assert server.outcome(name) == ("failed with exit code 3", 3)
    assert "only this\n" in "".join(said)
    killed = server.submit("kill -9 $$", {}, None)
    server.follow(killed, said.append)
    assert server.outcome(killed)[1] == 137


def test_a_name_that_was_used_is_refused_with_what_to_do(head: Head, tmp_path: Path) -> None:
    JobServer(head.address).submit("true", {}, "taken")
    command = [sys.executable, "-m", "pipelines", "submit", "--address", head.address, "--submission-id", "taken", "--"]
    done = subprocess.run(
        [*command, *EVAL, f"run.dir={tmp_path / 'run'}"], cwd=ROOT, capture_output=True, text=True, env=os.environ
    )
    assert done.returncode == 1
    assert "Choose another --submission-id" in done.stderr
    assert "Traceback" not in done.stderr
