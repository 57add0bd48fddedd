"""Which Ray is joined, and what a refusal is translated into."""

import pytest

from pipelines.config.schema import ClusterConfig
from pipelines.dispatch.connect import cluster_address, connected
from pipelines.dispatch.signals import StopFlag
from pipelines.dispatch.work import FatalError


def refusal(**settings: object) -> str:
    with pytest.raises(FatalError) as caught, connected(ClusterConfig(**settings), 1, StopFlag()):
        pass
    return str(caught.value)


def test_auto_is_a_private_ray_unless_a_job_or_the_user_names_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert cluster_address(ClusterConfig()) == "local"
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert cluster_address(ClusterConfig()) == "auto"
    assert cluster_address(ClusterConfig(address="local")) == "local"


def test_an_address_of_the_environment_where_nothing_answers_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    text = refusal()
    assert "nothing answers at 127.0.0.1:1" in text
    assert "ray status" in text


def test_a_home_that_cannot_be_written_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's own default writes a token there."""
    monkeypatch.delenv("RAY_AUTH_MODE")
    monkeypatch.setenv("HOME", "/proc")
    assert "export RAY_AUTH_MODE=disabled" in refusal(address="local", object_store_mb=80)


def test_a_temp_dir_that_cannot_be_used_is_explained() -> None:
    assert "cluster.temp_dir" in refusal(address="local", temp_dir="/proc/none", object_store_mb=80)
