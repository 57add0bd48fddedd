"""Math-Verify on pairs of completion and gold answer, in this process: `python math_verify_grade.py SPEC.json`.

Runs in an interpreter that has `math_verify` and need not have Mathlete: this file imports nothing of it.
"""

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from math_verify import parse, verify

WARM_UP = (r"so $\boxed{(x+1)^2}$", "x^2 + 2x + 1")


def measure(spec: dict[str, Any]) -> dict[str, Any]:
    """Load all that a comparison needs, then one pass over the pairs."""
    is_correct(*WARM_UP)
    start = time.perf_counter()
    correct = [is_correct(completion, gold) for completion, gold in spec["pairs"]]
    return {"correct": correct, "seconds": time.perf_counter() - start}


def is_correct(completion: str, gold: str) -> bool:
    """The verdict. A gold answer has to be marked as mathematics; what raises is no correct answer."""
    try:
        return bool(verify(parse(f"${gold}$"), parse(completion)))
    except Exception:  # noqa: BLE001  (whatever it may raise is a verdict)
        return False


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    print(json.dumps(measure(json.loads(Path(sys.argv[1]).read_text()))))
