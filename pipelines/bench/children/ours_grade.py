"""Our grader on pairs of completion and gold answer, in this process: `python -m … SPEC.json`."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from grading import grade

WARM_UP = (r"so \boxed{(x+1)^2}", "x^2 + 2x + 1")


def measure(spec: dict[str, Any]) -> dict[str, Any]:
    """Load all that a comparison needs, then one pass over the pairs."""
    grade(*WARM_UP)
    start = time.perf_counter()
    correct = [grade(completion, gold).correct for completion, gold in spec["pairs"]]
    return {"correct": correct, "seconds": time.perf_counter() - start}


if __name__ == "__main__":
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    print(json.dumps(measure(json.loads(Path(sys.argv[1]).read_text()))))
