"""The machine that a process runs on."""

import ctypes
from pathlib import Path

_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def host_memory() -> tuple[int, int]:
    """(available, total) bytes that this process may use: of the machine, or of its container where that has less."""
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available, total = (int(fields[name].split()[0]) * 1024 for name in ("MemAvailable", "MemTotal"))
    for limit_file, used_file in _LIMITS:
        try:
            limit, used = Path(limit_file).read_text().strip(), int(Path(used_file).read_text())
        except (OSError, ValueError):
            continue
        if limit.isdigit() and int(limit) < total:
            available, total = min(available, int(limit) - used), int(limit)
    return available, total


def give_back_freed_memory() -> None:
    """Let the C library return what has been freed to the system: it keeps hundreds of megabytes of small pieces.

    Where it is another library than glibc, nothing happens.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
