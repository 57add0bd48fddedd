"""A tiny model in a folder, as a user would have one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.actors.engine.tiny import save_checkpoint
from tests.end_to_end.command import Started


@pytest.fixture(autouse=True)
def no_process_outlives_its_run() -> Iterator[None]:
    """However the runs of the test ended: complete, refused, stopped by a signal while they started or worked, killed."""
    known = len(Started.every)
    yield
    for run in Started.every[known:]:
        run.assert_gone()


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_checkpoint(tmp_path_factory.mktemp("tiny-llama"))


@pytest.fixture(scope="session")
def settings(checkpoint: Path) -> list[str]:
    """A run of about ten seconds in fp32: 40 problems in small units, long enough to be interrupted."""
    return [
        f"model={checkpoint}",
        "model.dtype=float32",
        "model.device=cpu",
        "data=builtin:mini",
        "data.limit=40",
        "sampling.max_new_tokens=200",
        "generation.batch_size=2",
        "generators.cpus_per_actor=1",  # threads that wait for each other crawl on a busy machine
        "cluster.object_store_mb=80",
    ]
