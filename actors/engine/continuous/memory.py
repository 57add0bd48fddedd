"""How many tokens' keys and values fit."""

from pathlib import Path

import torch

HOST_SHARE = 0.5
"""Share of the host's free memory that the pool may take. It is touched only as far as it is used."""

DEVICE_SHARE = 0.85
"""Share of a GPU's free memory that the pool takes; the rest is for a step's own tensors."""

_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def pool_tokens(device: torch.device, bytes_per_token: int, wanted: int) -> int:
    """Return how many tokens a pool on `device` gets: `wanted`, or as many as the free memory allows."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        share = DEVICE_SHARE * free
    else:
        share = HOST_SHARE * host_memory()[0]
    return min(wanted, int(share) // bytes_per_token)


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
