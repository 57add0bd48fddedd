"""The files under configs/cluster: whole, consistent with each other, and with commands that this project knows."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.cli import main
from pipelines.submit import job_environment

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "configs" / "cluster"
MANIFESTS = sorted(FOLDER.glob("kuberay_*.yaml"))
SECRET = re.compile("TOKEN|KEY|SECRET|PASSWORD")


def load(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())


def cluster(manifest: dict[str, Any]) -> dict[str, Any]:
    return manifest["spec"]["rayClusterSpec"] if manifest["kind"] == "RayJob" else manifest["spec"]


def groups(manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield cluster(manifest)["headGroupSpec"]
    yield from cluster(manifest)["workerGroupSpecs"]


def commands(path: Path) -> list[list[str]]:
    """Of the manifest's entrypoint, and those that its comment shows."""
    found = []
    if entrypoint := load(path)["spec"].get("entrypoint"):
        found.append(shlex.split(entrypoint)[3:])
        assert shlex.split(entrypoint)[:3] == ["python", "-m", "pipelines"]
    comment = " ".join(
        line.lstrip("# ").rstrip(" \\") for line in path.read_text().splitlines() if line.startswith("#")
    )
    shown = re.search(r"mathlete submit .*?-- ((?:\S+ )*?\S+=\S+(?: \S+=\S+)*)", comment)
    return found + ([shlex.split(shown.group(1))] if shown else [])


def test_there_is_a_job_and_an_autoscaling_cluster() -> None:
    kinds = [(load(path)["apiVersion"], load(path)["kind"]) for path in MANIFESTS]
    assert sorted(kinds) == [("ray.io/v1", "RayCluster"), ("ray.io/v1", "RayJob")]
    scaling = cluster(load(FOLDER / "kuberay_autoscaling.yaml"))
    assert scaling["enableInTreeAutoscaling"] is True
    assert any(group["minReplicas"] < group["maxReplicas"] for group in scaling["workerGroupSpecs"])


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_the_command_is_one_that_runs_here_and_keeps_its_results_on_the_shared_storage(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    found = commands(path)
    assert found
    for words in found:
        assert main([*words, "--print-config"]) == 0
        settings = yaml.safe_load(capsys.readouterr().out)
        for group in groups(load(path)):
            mounts = group["template"]["spec"]["containers"][0]["volumeMounts"]
            assert any(Path(settings["run"]["dir"]).is_relative_to(mount["mountPath"]) for mount in mounts[:1])
        room = sum(
            int(group["rayStartParams"]["num-gpus"]) * group["maxReplicas"] for group in list(groups(load(path)))[1:]
        )
        assert settings["generators"]["num_actors"] * settings["generators"]["gpus_per_actor"] <= room
        assert settings["cluster"]["wait_for_nodes_s"] > 0


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_the_pods_have_what_they_name_and_ray_is_told_of_the_gpus_that_they_have(path: Path) -> None:
    manifest = load(path)
    pinned = re.search(r"^ray==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    assert cluster(manifest)["rayVersion"] == pinned.group(1)
    for group in groups(manifest):
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
        limits, requests = container["resources"]["limits"], container["resources"]["requests"]
        assert int(limits.get("nvidia.com/gpu", 0)) == int(group["rayStartParams"]["num-gpus"])
        assert limits.get("nvidia.com/gpu") == requests.get("nvidia.com/gpu")
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
    for group in cluster(manifest)["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_secrets_come_from_a_secret_and_never_stand_in_the_file(path: Path) -> None:
    for group in groups(load(path)):
        for variable in group["template"]["spec"]["containers"][0]["env"]:
            if SECRET.search(variable["name"]):
                assert set(variable) == {"name", "valueFrom"}


def test_a_job_has_time_to_stop_in_good_order_however_it_is_submitted() -> None:
    own = job_environment(ROOT, None, [], {})["env_vars"]
    file = load(FOLDER / "runtime_env.yaml")["env_vars"]
    manifest = yaml.safe_load(load(FOLDER / "kuberay_rayjob.yaml")["spec"]["runtimeEnvYAML"])["env_vars"]
    assert own == file == manifest
    assert int(own["RAY_JOB_STOP_WAIT_TIME_S"]) >= 10
