"""Shared by all tests: a local Ray, and the data folder."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ["RAY_AUTH_MODE"] = "disabled"
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ["WANDB_MODE"] = "offline"  # whoever runs the tests may have an account
os.environ.pop("RAY_ADDRESS", None)
os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # an empty value would forbid the fake GPUs


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "local_ray" in getattr(item, "fixturenames", ()):
            item.add_marker("alone")


@pytest.fixture(scope="module")
def local_ray() -> Iterator[None]:
    """A Ray of 4 CPUs and 4 GPUs that are only numbers, for pinning; gone before other tests start their own."""
    import ray

    ray.init(
        address="local",
        num_cpus=4,
        num_gpus=4,
        object_store_memory=100 * 1024**2,
        include_dashboard=False,
        log_to_driver=False,
    )
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with math500.jsonl."""
    folder = os.environ.get("MATHLETE_DATA")
    if not folder or not (Path(folder) / "math500.jsonl").exists():
        pytest.skip("MATHLETE_DATA names no folder with math500.jsonl")
    return Path(folder)
