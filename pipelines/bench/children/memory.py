"""This process's resident memory, in bytes, as Linux counts it."""

from pathlib import Path


def resident() -> int:
    """Return what is resident now."""
    return _status("VmRSS")


def peak_resident() -> int:
    """Return the most that was resident since the start, or since `forget_peak`."""
    return _status("VmHWM")


def forget_peak() -> bool:
    """Let the peak be counted from now on; returns whether the system allows it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
