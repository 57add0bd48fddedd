"""A cluster of several nodes (processes of this machine) that the command joins by address."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.command import Started, mathlete, read_samples

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head with one CPU."""
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 80 * 1024**2})
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
    cluster.add_node(num_cpus=2, object_store_memory=80 * 1024**2)
    assert run.finish() == 0, run.output()
    assert "Ray cluster at" in run.output()
    assert len(read_samples(tmp_path / "run")) == 6


def test_an_address_where_nothing_answers_is_explained(settings: list[str], tmp_path: Path) -> None:
    done = mathlete(*settings, "cluster.address=127.0.0.1:1", f"run.dir={tmp_path / 'run'}")
    assert done.code == 1
    assert "cannot use Ray (127.0.0.1:1)" in done.err
    assert "cluster.address=local" in done.err
    assert "Traceback" not in done.err
