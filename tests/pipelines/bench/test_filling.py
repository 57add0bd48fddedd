"""A limit of memory ends a child with a clear word, and settings below it run at their fullest."""

from pathlib import Path

import pytest

from pipelines.bench.child import ChildError
from pipelines.bench.memory import ROWS, Frame, Probe, _probe
from tests.actors.engine.tiny import save_checkpoint

MIB = 2**20


@pytest.fixture(scope="module")
def frame(tmp_path_factory: pytest.TempPathFactory) -> Frame:
    folder = save_checkpoint(tmp_path_factory.mktemp("tiny"))
    model = {"path": str(folder), "dtype": "float32", "device": "cpu"}
    return Frame(model, 1, 512, 64, 4, 2, 2, 1024, limit=2**40, longest=512)


def child(frame: Frame, name: str, size: int, limit: int) -> Probe:
    return _probe(size, ROWS[name].spec(size, frame) | {"limit": limit}, 120.0)


def test_a_pool_that_fits_is_resident_as_a_whole_and_one_above_the_limit_fails(frame: Frame) -> None:
    """A token has 256 bytes here: two layers, keys and values, two heads of eight floats."""
    small, large = (child(frame, "batch", rows, 2**40) for rows in (1, 1024))
    assert small.fits and large.fits
    pool = 1024 * 512 * 256
    for taken in ("resident", "private"):
        grown = getattr(large, taken) - getattr(small, taken)
        assert 0.95 * pool < grown < 1.8 * pool, taken
    assert small.private is not None
    between = small.private + 32 * MIB
    refused = child(frame, "batch", 1024, between)
    assert not refused.fits and refused.reason


def test_the_learner_stands_beside_the_generator(frame: Frame) -> None:
    spec = ROWS["token-budget"].spec(4096, frame)
    both, alone = (_probe(1, each, 120.0) for each in (spec, spec | {"learner": None}))
    assert both.fits and alone.fits
    assert both.resident is not None and alone.resident is not None
    assert both.resident > alone.resident + 4096 * 400 * 4, "a micro-batch is in memory"


def test_a_child_that_fails_for_another_reason_is_no_lack_of_memory(frame: Frame, tmp_path: Path) -> None:
    spec = ROWS["batch"].spec(1, frame)
    with pytest.raises(ChildError, match="nowhere"):
        _probe(1, spec | {"model": {"path": str(tmp_path / "nowhere")}}, 120.0)
