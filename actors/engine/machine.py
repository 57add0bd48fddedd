"""What the device can do: bandwidth and rate of matrix products, measured once an hour."""

import contextlib
import hashlib
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from actors.engine import native
from actors.models import cache_folder

PROBE_BYTES = 2**28
"""Read to measure bandwidth; four times the last-level cache where that is more."""

LARGEST_PROBE = 2**31
MATRIX = 2048
GPU_MATRIX = 8192
TRIES = 5
KEPT_S = 3600.0
"""How long a measurement holds: a replaced actor need not wait for it, and a machine that was busy gets another chance."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What a device was measured to do."""

    bytes_per_s: float
    flop_per_s: float

    def __str__(self) -> str:
        return f"{self.bytes_per_s / 1e9:.0f} GB/s, {self.flop_per_s / 1e12:.2f} TFLOP/s"


def known_machine(device: torch.device, dtype: torch.dtype) -> Machine:
    """Return what was measured on this node for this device, type and number of threads, measured now where that is too
    long ago. It is kept in the cache folder, if that can be written."""
    path = cache_folder() / "machine" / f"{_key(device, dtype)}.json"
    with contextlib.suppress(OSError, ValueError, TypeError):
        if time.time() - path.stat().st_mtime < KEPT_S:
            return Machine(**json.loads(path.read_text()))
    machine = measure_machine(device, dtype)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(asdict(machine)))
        unfinished.replace(path)
    return machine


def _key(device: torch.device, dtype: torch.dtype) -> str:
    """The cache folder may be shared by nodes, so the node is part of it."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    known = (platform.node(), name, device.type, dtype, cores, torch.get_num_threads(), torch.__version__)
    return hashlib.sha256(repr(known).encode()).hexdigest()[:16]


def measure_machine(device: torch.device, dtype: torch.dtype) -> Machine:
    """Return the bandwidth and the rate of matrix products that `device` reaches now; a second or two."""
    size = min(LARGEST_PROBE, max(PROBE_BYTES, 4 * _last_level_cache()))
    source = torch.ones(size // 8, dtype=torch.float32, device=device)
    target = torch.ones_like(source)
    copied = 2 * source.nbytes / _fastest(lambda: target.copy_(source), device)
    read = source.nbytes / _fastest(lambda: source.sum(), device)
    side = GPU_MATRIX if device.type == "cuda" else MATRIX
    matrix = torch.ones((side, side), dtype=dtype, device=device)
    product_s = _fastest(lambda: matrix @ matrix, device)
    kernels = native.load() if device.type == "cpu" and dtype is torch.bfloat16 else None
    if kernels is not None and kernels.tiles.available:
        tiles, packed = kernels.tiles, kernels.tiles.pack(matrix)
        product_s = min(product_s, _fastest(lambda: tiles.linear(matrix, packed, None, side), device))
    return Machine(max(copied, read), 2 * side**3 / product_s)


def _fastest(action: Callable[[], object], device: torch.device) -> float:
    best = float("inf")
    for _ in range(TRIES):
        start = time.perf_counter()
        action()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - start)
    return best


def _last_level_cache() -> int:
    """Bytes of the largest cache of the first processor, 0 where the system does not tell."""
    sizes = [path.read_text().strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    units = {"K": 2**10, "M": 2**20}
    return max((int(size[:-1]) * units[size[-1]] for size in sizes if size and size[-1] in units), default=0)
