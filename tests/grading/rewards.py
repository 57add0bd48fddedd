"""Reward functions as a user would write them, good and bad."""

import math
import os
import subprocess
import time
from pathlib import Path
from typing import Any

not_a_function = 3


def length(completion: str, gold: str, problem: dict[str, Any]) -> float:
    return len(completion) / 10


def knows_the_problem(completion: str, gold: str, problem: dict[str, Any]) -> float:
    return float(gold == "0.5" and problem == {"id": "p1", "level": 3})


def to_order(completion: str, gold: str, problem: dict[str, Any]) -> Any:
    """Does what the completion says."""
    match completion:
        case "hang":
            time.sleep(1000)
        case "hang in a program":
            subprocess.run(["sleep", "1000"], check=False)
        case "raise":
            raise ValueError("no such\nunit")
        case "exit":
            raise SystemExit(3)
        case "crash":
            os._exit(9)
        case "memory":
            bytearray(8 << 30)
        case "print":
            print("noise on standard output", flush=True)
        case "nan":
            return math.nan
        case "infinite":
            return -math.inf
        case "text":
            return "0.5"
        case "nothing":
            return None
    return 0.5


def writes_a_file(completion: str, gold: str, problem: dict[str, Any]) -> bool:
    with Path(completion).open("a") as file:
        file.write("x")
    return True
