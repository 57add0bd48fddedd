"""This process's memory, in bytes: what is resident as Linux counts it, and what torch holds of a GPU."""

from pathlib import Path

import torch


def resident() -> int:
    """Return what is resident now."""
    return _status("VmRSS")


def peak_resident() -> int:
    """Return the most that was resident since the start, or since `forget_peak`."""
    return _status("VmHWM")


def private() -> int:
    """Return what RLIMIT_DATA counts: private memory that may be written to, touched or not."""
    return _status("VmData")


def forget_peak() -> bool:
    """Let the peak be counted from now on; returns whether the system allows it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def device_peak(device: torch.device) -> int | None:
    """Return the most of a GPU's memory that was taken since the start; None on a CPU."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
