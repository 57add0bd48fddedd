"""A grading child with faults to order: completions that start with `fault:` hang, crash or eat memory."""

import os
import signal
import time
from typing import Any

from grading.child import judge, serve


def stubborn(request: dict[str, Any]) -> dict[str, Any]:
    completion = request.get("completion", "")
    if completion == "fault:hang" or "fault:hang" in request.get("answers", ()):
        time.sleep(1000)
    if completion == "fault:spin":
        10 ** (10**10)  # one C call that never returns to the interpreter
    if completion == "fault:crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if completion == "fault:exit":
        raise SystemExit(3)
    if completion == "fault:memory":
        bytearray(8 << 30)
    if completion == "fault:raise":
        raise ZeroDivisionError
    if completion == "fault:print":
        print("noise on standard output", flush=True)
    if completion == "fault:file":
        with open("PWNED_MARKER", "w") as file:  # noqa: PTH123
            file.write("x")
    if completion == "fault:grow":
        ballast.append(b"x" * (200 << 20))
    return judge(request)


ballast: list[bytes] = []

if __name__ == "__main__":
    serve(stubborn)
