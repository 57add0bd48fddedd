"""What a speed depends on beside the code."""

import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.records.provenance import provenance

PROBE_TIMEOUT_S = 120.0


def machine_facts(command: str, threads: int, peers: Mapping[str, str | None]) -> dict[str, Any]:
    """Processor, cores that this process may use, memory in bytes, threads, and the versions of all that took part, those
    of `peers` in other interpreters included."""
    facts = provenance(command)
    facts["versions"] |= {name: version for name, version in peers.items() if version is not None}
    return {
        **facts,
        "processor": _processor(),
        "cores": usable_cores(),
        "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "load_before": os.getloadavg()[0],
        "threads": threads,
    }


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0))


def version_in(python: Path | None, module: str, package: str) -> str | None:
    """Version of `package` for this interpreter; None where `module` cannot be imported."""
    if python is None:
        return None
    code = f"import {module}, importlib.metadata; print(importlib.metadata.version({package!r}))"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S)
    return done.stdout.strip() if done.returncode == 0 else None


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
