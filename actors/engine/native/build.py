"""Compiling the kernels for this machine, once: the library is kept in the cache folder.

Its file name says what it was made from (sources, flags, compiler, processor, torch) and what it must hash to, so a
stale or damaged file is never loaded. A library that fails the check against torch is never kept.
"""

import fcntl
import hashlib
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from actors.models import cache_folder

SOURCES = Path(__file__).parent
COMPILERS = ("c++", "g++", "clang++")
FLAGS = ("-O3", "-march=native", "-std=c++17", "-fPIC", "-ffp-contract=fast", "-fno-math-errno")

COMPILE_TIMEOUT = 60
"""Seconds for one run of the compiler."""

CHECK_TIMEOUT = 60
"""Seconds for one run of the check; most of it is the import of torch."""

LOCK_TIMEOUT = 150
"""Seconds to wait for another process that builds the same library, before building it here as well."""


class Unavailable(Exception):
    """There is no native library. The message says why, in one sentence."""


def ensure_library() -> Path:
    """Return the library for this machine, compiled and checked now if the cache has none.

    One process builds while others wait; the file appears by a rename and so is always complete. Raises Unavailable,
    or OSError where the cache folder says no.
    """
    if sys.byteorder != "little":
        raise Unavailable("the native kernels need a little-endian processor")
    compiler = _find_compiler()
    key = _key(compiler)
    folder = cache_folder() / "native"
    folder.mkdir(parents=True, exist_ok=True)
    if library := _find(folder, key):
        return library
    with _turn(folder / f".{key}.lock") as alone:
        for leftover in folder.glob(f".{key}-*") if alone else ():
            shutil.rmtree(leftover, ignore_errors=True)
        return _find(folder, key) or _build(compiler, folder, key)


def _find_compiler() -> list[str]:
    try:
        chosen = shlex.split(os.environ.get("CXX", ""))
    except ValueError as error:
        raise Unavailable(f"CXX cannot be read as a command: {error}") from error
    if chosen:
        if not shutil.which(chosen[0]):
            raise Unavailable(f"CXX names the compiler {chosen[0]}, which is not on this machine")
        return chosen
    for name in COMPILERS:
        if found := shutil.which(name):
            return [found]
    raise Unavailable(f"no C++ compiler on this machine (looked for $CXX, {', '.join(COMPILERS)})")


def _key(compiler: list[str]) -> str:
    parts = [*compiler, *FLAGS, _run([*compiler, "--version"]), _processor(), version("torch")]
    for source in sorted(SOURCES.glob("*.[ch]pp")):
        parts += [source.name, source.read_text(encoding="utf-8")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _processor() -> str:
    """What -march=native depends on."""
    fields = ("model name", "flags", "features", "cpu implementer", "cpu architecture", "cpu variant", "cpu part")
    described = platform.machine() + platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        first = cpuinfo.read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
        described += "".join(line for line in first.splitlines() if line.lower().startswith(fields))
    return described


def _find(folder: Path, key: str) -> Path | None:
    for library in folder.glob(f"kernels-{key}-*.so"):
        if library.name == _name(key, library):
            return library
        library.unlink(missing_ok=True)
    return None


def _name(key: str, library: Path) -> str:
    return f"kernels-{key}-{hashlib.sha256(library.read_bytes()).hexdigest()[:16]}.so"


def _build(compiler: list[str], folder: Path, key: str) -> Path:
    # Linked without -fopenmp, the library takes its OpenMP symbols from the runtime that torch has loaded: a second
    # one would have threads of its own. Where torch's runtime lacks those symbols, one thread has to do.
    reason = ""
    for openmp in (["-fopenmp"], []):
        with tempfile.TemporaryDirectory(dir=folder, prefix=f".{key}-") as work:
            compiled, linked = Path(work) / "kernels.o", Path(work) / "kernels.so"
            try:
                _run([*compiler, *FLAGS, *openmp, "-c", str(SOURCES / "kernels.cpp"), "-o", str(compiled)])
                _run([*compiler, "-shared", str(compiled), "-o", str(linked)])
                _check(linked)
            except Unavailable as error:
                reason = reason or str(error)
                continue
            return linked.rename(folder / _name(key, linked))
    raise Unavailable(reason)


def _check(library: Path) -> None:
    """Run the check in a process of its own, which a library that crashes cannot take along."""
    path = os.pathsep.join(filter(None, [str(SOURCES.parents[2]), os.environ.get("PYTHONPATH")]))
    # -P keeps a package of the same name in the working folder from being imported instead.
    command = [sys.executable, "-P", "-m", "actors.engine.native.check", str(library)]
    _run(command, CHECK_TIMEOUT, env={**os.environ, "PYTHONPATH": path})


def _run(command: list[str], timeout: float | None = None, env: dict[str, str] | None = None) -> str:
    timeout = timeout or COMPILE_TIMEOUT
    shown = shlex.join(command)
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=env,
        start_new_session=True,
    ) as process:
        try:
            output, complaints = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"no end after {timeout:g} s: {shown}") from error
        finally:
            if process.poll() is None:
                # A compiler works in children of its own.
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        lines = complaints.strip().splitlines()
        said = next((line for line in lines if "error" in line), lines[-1] if lines else "no message")
        ended = f"exit code {process.returncode}" if process.returncode > 0 else f"signal {-process.returncode}"
        raise Unavailable(f"{ended} from {shown}: {said}")
    return output


@contextmanager
def _turn(path: Path) -> Iterator[bool]:
    """Hold a lock; yield False where another process has not let go of it in time."""
    with path.open("w") as file:
        deadline = time.monotonic() + LOCK_TIMEOUT
        alone = False
        while not alone and time.monotonic() < deadline:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                alone = True
            except BlockingIOError:
                time.sleep(0.05)
        # Closing the file releases the lock, as does the death of the process.
        yield alone
