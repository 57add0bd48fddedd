"""The program of a child that runs the user's own reward.

Started as `python -m grading.reward_child PARENT_PID MEMORY_MB DEADLINE_S MODULE:FUNCTION`. No guard here: the function
is the user's code and may need files. What a model wrote is only its argument.
"""

import importlib
import math
import operator
import os
import resource
import sys
from collections.abc import Callable
from numbers import Real
from typing import Any

from grading.child import STATM, answer_requests, limit_memory, private_channel, stay_with
from grading.reward import split_name

LONGEST_MESSAGE = 200
STANDARD_ERROR = 2


def serve() -> None:
    """Answers requests until the parent closes the pipe or dies; the first one asks whether the function is there."""
    parent, memory_mb, deadline_s, name = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
    channel = private_channel(output=STANDARD_ERROR)
    stay_with(parent)
    function, fault = load(name)
    limit_memory(mapped_mb() + memory_mb)

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if function is None:
            return {"fault": fault}
        return {} if "import" in request else call(function, request)

    answer_requests(channel, answer, 2 * deadline_s * (os.cpu_count() or 1))  # it may use threads


def load(name: str) -> tuple[Callable[..., Any] | None, str]:
    """The function that `module:function` names, or None and what is wrong with it."""
    module, path = split_name(name)
    try:
        function = operator.attrgetter(path)(importlib.import_module(module))
    except BaseException as fault:  # noqa: BLE001  (reported: the user's module may raise anything)
        return None, told(fault)
    return (
        (function, "") if callable(function) else (None, f"{path} is of type {type(function).__name__}, not a function")
    )


def call(function: Callable[..., Any], request: dict[str, Any]) -> dict[str, Any]:
    """The reward, or the fault that takes its place."""
    try:
        value = function(request["completion"], request["gold"], request["problem"])
    except MemoryError:
        raise
    except BaseException as fault:  # noqa: BLE001  (reported: one completion must not end the run)
        return {"fault": told(fault)}
    if not isinstance(value, Real):
        return {"fault": f"returned {type(value).__name__}, not a number"}
    return {"reward": float(value)} if math.isfinite(value) else {"fault": f"returned {float(value)}"}


def told(fault: BaseException) -> str:
    """In one line."""
    return " ".join(f"raised {type(fault).__name__}: {fault}".split())[:LONGEST_MESSAGE]


def mapped_mb() -> int:
    """Address space in use: libraries such as torch map many times what they occupy."""
    if not STATM.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return int(STATM.read_text().split()[0]) * resource.getpagesize() >> 20


if __name__ == "__main__":
    serve()
