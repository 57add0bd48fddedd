"""One library a machine, made once, checked, and done without where it cannot be had."""

import ctypes
import fnmatch
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from actors.engine import native
from actors.engine.native import build
from actors.engine.native.check import WrongLibrary, check
from actors.engine.native.kernels import _SIGNATURES, Kernels

ROOT = Path(__file__).parents[4]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache, and a `load` that has not been called."""
    monkeypatch.setenv("MATHLETE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MATHLETE_NATIVE", raising=False)
    native._load.cache_clear()
    yield tmp_path / "cache" / "native"
    native._load.cache_clear()


@pytest.fixture(scope="session")
def library(kernels: Kernels) -> Path:
    return build.ensure_library()


def compiler(folder: Path, library: Path, before: str = "") -> str:
    """A compiler that needs no time: it notes its arguments and hands out `library`."""
    path = folder / "compiler"
    path.write_text(
        f"""#!/bin/sh
case "$*" in *--version) echo a compiler; exit;; esac
echo "$*" >> {folder}/calls
{before}
while [ "$1" != -o ]; do shift; done
cp {library} "$2"
"""
    )
    path.chmod(0o755)
    return str(path)


def calls(folder: Path) -> list[str]:
    """How the compiler was called to compile, not to link."""
    return [line for line in (folder / "calls").read_text().splitlines() if " -c " in line]


def unavailable(cache: Path) -> str:
    assert native.load() is None
    reason = native.unavailable_reason()
    assert reason is not None
    assert not list(cache.glob("*.so"))
    assert not [path for path in cache.glob(".*") if path.is_dir()]
    return reason


# Doing without


def test_no_compiler_is_a_reason(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert "no C++ compiler" in unavailable(cache)


@pytest.mark.parametrize(("named", "said"), [("no-such-compiler -O1", "no-such-compiler"), ("'c++", "CXX")])
def test_a_wrong_cxx_is_a_reason(cache: Path, monkeypatch: pytest.MonkeyPatch, named: str, said: str) -> None:
    monkeypatch.setenv("CXX", named)
    assert said in unavailable(cache)


def test_a_failing_compiler_is_a_reason(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = "echo kernels.cpp:1: error: I cannot >&2; echo 1 error >&2; exit 3"
    monkeypatch.setenv("CXX", compiler(tmp_path, Path("/dev/null"), before))
    reason = unavailable(cache)
    assert reason.startswith("exit code 3")
    assert reason.endswith("error: I cannot")


def test_a_compiler_without_end_is_a_reason_and_is_ended(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "COMPILE_TIMEOUT", 0.5)
    before = f"sleep 60 & echo $! >> {tmp_path}/children; wait"
    monkeypatch.setenv("CXX", compiler(tmp_path, Path("/dev/null"), before))
    assert "no end after 0.5 s" in unavailable(cache)
    deadline = time.monotonic() + 5  # what was killed ends when it gets a turn
    while left := [child for child in (tmp_path / "children").read_text().split() if _lives(child)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def _lives(pid: str) -> bool:
    try:
        return not Path(f"/proc/{pid}/stat").read_text().rsplit(") ")[1].startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_cache_that_cannot_be_written_is_a_reason(
    kernels: Kernels, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MATHLETE_CACHE", str(tmp_path / "file"))
    (tmp_path / "file").touch()
    assert "cannot be kept" in unavailable(cache)


def test_the_environment_switches_it_off(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATHLETE_NATIVE", "0")
    assert "MATHLETE_NATIVE" in unavailable(cache)


# What is kept


def test_a_library_is_built_once_and_loaded(
    library: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", compiler(tmp_path, library))
    assert native.load() is not None
    assert native.unavailable_reason() is None
    assert build.ensure_library().parent == cache
    assert len(calls(tmp_path)) == 1


def test_a_library_is_for_one_compiler_processor_and_set_of_sources(
    library: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_check", lambda library: None)
    monkeypatch.setenv("CXX", compiler(tmp_path, library))
    names = {build.ensure_library().name}
    monkeypatch.setenv("CXX", compiler(tmp_path, library) + " -O1")
    names.add(build.ensure_library().name)
    monkeypatch.setattr(build, "_processor", lambda: "another")
    names.add(build.ensure_library().name)
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-g"))
    names.add(build.ensure_library().name)
    monkeypatch.setattr(build, "SOURCES", tmp_path)
    for source in ("kernels.cpp", "vectors.hpp"):
        (tmp_path / source).write_text("")
        names.add(build.ensure_library().name)
    assert len(names) == 6


@pytest.mark.parametrize("damage", [lambda content: content[:1000], lambda content: content[:-1] + b"?"])
def test_a_damaged_file_is_built_anew(
    library: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage
) -> None:
    monkeypatch.setattr(build, "_check", lambda library: None)
    monkeypatch.setenv("CXX", compiler(tmp_path, library))
    kept = build.ensure_library()
    kept.write_bytes(damage(library.read_bytes()))
    assert build.ensure_library().read_bytes() == library.read_bytes()
    assert len(calls(tmp_path)) == 2


def test_a_damaged_file_that_cannot_be_built_anew_is_a_reason(
    library: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_check", lambda library: None)
    monkeypatch.setenv("CXX", compiler(tmp_path, library))
    build.ensure_library().write_bytes(b"")
    library = tmp_path / "nothing"
    assert compiler(tmp_path, library) == os.environ["CXX"]
    assert "nothing" in unavailable(cache)


def test_a_library_that_fails_the_check_is_not_kept(
    library: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions = ["thread_count", "has_tiles", "packed_numbers", "pack_bf16", "linear_bf16"]
    functions += [
        f"{name}_{suffix}" for name in (*_SIGNATURES, "score", "score_gradient") for suffix in ("f32", "bf16")
    ]
    idle = "".join(f'extern "C" int {name}() {{ return -1; }}\n' for name in functions)
    command = [*build._find_compiler(), "-x", "c++", "-shared", "-fPIC", "-", "-o", str(tmp_path / "idle.so")]
    subprocess.run(command, input=idle, text=True, check=True)
    # A second attempt, without OpenMP, would take the time of a second check.
    before = 'case "$*" in *-O3*-fopenmp*) ;; *-O3*) exit 1;; esac'
    monkeypatch.setenv("CXX", compiler(tmp_path, tmp_path / "idle.so", before))
    assert re.search(r"exit code 1 .* disagrees with torch", unavailable(cache))


@pytest.mark.parametrize("kernel", list(_SIGNATURES))
def test_the_check_sees_a_small_fault_of_every_kernel(library: Path, kernel: str) -> None:
    # Calls with the smallest fault that matters: the last row, or the last sequence, is left out.
    faulty = Kernels(library)
    for dtype, function in getattr(faulty, f"_{kernel}").items():
        arguments = list(function.argtypes)
        rows = {"attend": 7, "store_kv": 9, "rope_store": 10, "add_rms_norm": 4, "silu_mul": 2, "sample": 2}[kernel]
        assert arguments[rows] is ctypes.c_int

        def shorter(*given: Any, function: Any = function, rows: int = rows) -> Any:
            return function(*given[:rows], given[rows] - 1, *given[rows + 1 :])

        getattr(faulty, f"_{kernel}")[dtype] = shorter
    check(Kernels(library))
    with pytest.raises(WrongLibrary, match="attend" if kernel == "store_kv" else kernel):
        check(faulty)


def test_the_check_sees_a_row_that_depends_on_its_neighbours(library: Path) -> None:
    class Sociable(Kernels):
        def attend(
            self, query: Tensor, keys: Tensor, values: Tensor, out: Tensor, sequences: Tensor, **how: Any
        ) -> None:
            super().attend(query, keys, values, out, sequences, **how)
            if sequences[0, 1] > 1:
                out[3] *= 1 + 2**-20

    with pytest.raises(WrongLibrary, match="neighbours"):
        check(Sociable(library))


def test_without_openmp_one_thread_has_to_do(
    library: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_check", lambda library: None)
    monkeypatch.setenv("CXX", compiler(tmp_path, library, 'case "$*" in *-fopenmp*) exit 1;; esac'))
    assert build.ensure_library().exists()
    assert ["-fopenmp" in call for call in calls(tmp_path)] == [True, False]


def test_processes_that_need_it_at_once_build_it_once(library: Path, cache: Path, tmp_path: Path) -> None:
    code = "from actors.engine.native import build; build._check = print; print(build.ensure_library())"
    environment = {**os.environ, "CXX": compiler(tmp_path, library, "sleep 0.3"), "PYTHONPATH": str(ROOT)}
    leftover = cache / f".{'0' * 16}-work"
    leftover.mkdir(parents=True)
    processes = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    paths = {process.communicate(timeout=60)[0].splitlines()[-1] for process in processes}
    assert len(paths) == 1
    assert Path(paths.pop()).read_bytes() == library.read_bytes()
    assert len(calls(tmp_path)) == 1


# How it lives with torch


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_there_is_one_openmp_runtime_and_it_follows_torch(kernels: Kernels) -> None:
    loaded = set(re.findall(r"\S*/lib[gi]?omp\S*", Path("/proc/self/maps").read_text()))
    assert len(loaded) == 1
    torch.set_num_threads(2)
    if kernels.thread_count() == 1:
        pytest.skip("the library was built for one thread")
    assert kernels.thread_count() == 2
    torch.set_num_threads(1)
    assert kernels.thread_count() == 1


def test_importing_the_package_loads_no_torch() -> None:
    code = "import actors.engine.native, sys; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True).stdout == "False\n"


def test_the_sources_are_shipped_with_the_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"]["actors.engine.native"]
    sources = [path.name for path in build.SOURCES.iterdir() if path.suffix not in ("", ".py")]
    assert "kernels.cpp" in sources
    assert all(any(fnmatch.fnmatch(name, pattern) for pattern in patterns) for name in sources)


def test_the_check_sees_a_small_fault_of_the_tile_product(library: Path) -> None:
    faulty = Kernels(library)
    if not faulty.tiles.available:
        pytest.skip("this processor has no tile unit")
    linear = faulty.tiles._linear
    faulty.tiles._linear = lambda *given: linear(*given[:5], given[5] - 1, *given[6:])
    with pytest.raises(WrongLibrary, match="linear"):
        check(faulty)


@pytest.mark.parametrize("kernel", ["score", "gradient"])
def test_the_check_sees_a_small_fault_of_the_scores(library: Path, kernel: str) -> None:
    faulty = Kernels(library)
    for dtype, function in getattr(faulty.scores, f"_{kernel}").items():

        def warmer(*given: Any, function: Any = function) -> Any:
            return function(*given[:4], given[4] * 1.01, *given[5:])

        getattr(faulty.scores, f"_{kernel}")[dtype] = warmer
    with pytest.raises(WrongLibrary, match="score"):
        check(faulty)
