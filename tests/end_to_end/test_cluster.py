"""A cluster of several nodes (processes of this machine) that the command joins by address."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.command import Started, mathlete, read_samples, texts

pytestmark = pytest.mark.ray


STORE = 80 * 1024**2
HASTE = {"health_check_initial_delay_ms": 500, "health_check_period_ms": 500, "health_check_failure_threshold": 3}
"""Ray's default takes a quarter of a minute to count a node among the dead."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head with one CPU."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "object_store_memory": STORE, "_system_config": HASTE}
    nodes = Cluster(initialize_head=True, head_node_args=head)
    yield nodes
    nodes.shutdown()


def test_what_a_cluster_lacks_is_told_node_by_node_and_a_node_that_comes_is_used(
    cluster: Any, settings: list[str], tmp_path: Path
) -> None:
    words = [*settings, f"cluster.address={cluster.address}", "data.limit=6"]
    short = mathlete(*words, f"run.dir={tmp_path / 'short'}")
    assert short.code == 3
    assert "of these, 0 generator(s) and 1 grader(s) fit" in short.err
    assert "1 of 1 CPU" in short.err

    run = Started(tmp_path / "run", *words, "cluster.wait_for_nodes_s=100")
    run.wait_until(lambda: "waiting for nodes" in run.output())
    cluster.add_node(num_cpus=3, object_store_memory=STORE)
    assert run.finish() == 0, run.output()
    assert "Ray cluster at" in run.output()
    assert len(read_samples(tmp_path / "run")) == 6


def test_a_node_that_joins_is_put_to_work_and_one_that_is_lost_is_named_and_costs_no_sample(
    cluster: Any, tmp_path: Path
) -> None:
    """The head has the grader, one node a generator; a second node joins, then the first is gone without a word."""
    (first,) = cluster.worker_nodes
    words = ["model=mathlete-tiny", "data=builtin:arithmetic", "data.count=300", "sampling.max_new_tokens=128"]
    words += ["generation.batch_size=1", "generators.cpus_per_actor=2", f"cluster.address={cluster.address}"]
    run = Started(tmp_path / "run", *words)
    (pid,) = run.wait_until(lambda: run.journal_lines() >= 3 and run.generator_pids())
    os.kill(pid, signal.SIGSTOP)  # so that the run lasts until the second node is there
    cluster.add_node(num_cpus=2, object_store_memory=STORE)
    run.wait_until(lambda: run.events("node joined") and len(run.generator_pids()) == 2)
    before = run.journal_lines()
    run.wait_until(lambda: run.journal_lines() >= before + 3)
    os.kill(pid, signal.SIGCONT)
    cluster.remove_node(first, allow_graceful=False)
    assert run.finish() == 0, run.output()
    assert len(texts(tmp_path / "run")) == 300
    (home, *_) = [
        event["report"]["placement"]["node_id"] for event in run.events("ready") if event["worker"] == "generator-0"
    ]
    incidents = json.loads((tmp_path / "run" / "summary.json").read_text())["incidents"]
    assert incidents["kinds"]["died"] >= 1
    (named,) = [name for name, found in incidents["by_node"].items() if "died" in found]
    assert f"({home[:8]})" in named
    assert f"node {named}: " in run.output()


def test_an_address_where_nothing_answers_is_explained(settings: list[str], tmp_path: Path) -> None:
    done = mathlete(*settings, "cluster.address=127.0.0.1:1", f"run.dir={tmp_path / 'run'}")
    assert done.code == 1
    assert "cannot use Ray (127.0.0.1:1)" in done.err
    assert "cluster.address=local" in done.err
    assert "Traceback" not in done.err


@pytest.mark.soak
def test_the_actors_of_a_node_that_is_emptied_finish_what_they_hold_and_leave(cluster: Any, tmp_path: Path) -> None:
    nodes = {node.node_id: node for node in (cluster.add_node(num_cpus=3, object_store_memory=STORE) for _ in range(2))}
    words = ["model=mathlete-tiny", "data=builtin:arithmetic", "data.count=1500", "sampling.max_new_tokens=128"]
    words += ["generation.batch_size=1", "generators.cpus_per_actor=2", f"cluster.address={cluster.address}"]
    run = Started(tmp_path / "run", *words, "generators.num_actors=2")
    run.wait_until(lambda: len(run.generator_pids()) == 2)
    homes = {
        event["worker"]: event["report"]["placement"]["node_id"]
        for event in run.events("ready")
        if event["worker"].startswith("generator")
    }
    worker, home = next((worker, home) for worker, home in homes.items() if home in nodes)
    drain = [Path(sys.executable).with_name("ray"), "drain-node", f"--address={cluster.address}", f"--node-id={home}"]
    drain += ["--reason=DRAIN_NODE_REASON_PREEMPTION", "--reason-message=test", "--deadline-remaining-seconds=600"]
    subprocess.run(drain, check=True, capture_output=True)
    run.wait_until(lambda: any(event["worker"] == worker for event in run.events("left")))
    assert run.finish() == 0, run.output()
    assert len(texts(tmp_path / "run")) == 1500
    assert [f"({home[:8]})" in event["worker"] for event in run.events("node draining")] == [True]
    assert run.events("died") == run.events("stalled") == []
    for node in nodes.values():
        cluster.remove_node(node)
