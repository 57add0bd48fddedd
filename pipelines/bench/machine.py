"""What a speed depends on beside the code."""

import os
import platform
from pathlib import Path
from typing import Any

from pipelines.records.provenance import provenance


def machine_facts(command: str, threads: int, openvino: str | None) -> dict[str, Any]:
    """Processor, cores that this process may use, memory in bytes, threads, and the versions of all that took part."""
    facts = provenance(command)
    if openvino is not None:
        facts["versions"]["openvino-genai"] = openvino
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


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
