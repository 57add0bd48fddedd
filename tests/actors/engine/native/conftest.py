import pytest

from actors.engine import native
from actors.engine.native.kernels import Kernels


@pytest.fixture(scope="session")
def kernels() -> Kernels:
    loaded = native.load()
    if loaded is None:
        pytest.skip(f"no native kernels here: {native.unavailable_reason()}")
    return loaded
