"""Runs one contender in a process of its own, which cannot outlast its time."""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any

LAST_LINES = 8


class ChildError(Exception):
    """A child crashed, hung or printed no result; the message says which, with its last lines of standard error."""


def run_child(command: Sequence[str], timeout_s: float) -> dict[str, Any]:
    """Return the JSON object that `command` prints as its last line. Raises ChildError."""
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        # In a session of its own, so that what it starts ends with it.
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
        try:
            out, _ = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            _kill(child)
            raise ChildError(f"killed: no result within {timeout_s:g} s{_last_lines(errors)}") from None
        except BaseException:
            _kill(child)
            raise
        if child.returncode != 0:
            raise ChildError(f"ended with {_ending(child.returncode)}{_last_lines(errors)}")
        lines = [line for line in out.splitlines() if line.startswith("{")]
        try:
            return json.loads(lines[-1])
        except (IndexError, json.JSONDecodeError):
            raise ChildError(f"ended without a result{_last_lines(errors)}") from None


def _kill(child: subprocess.Popen[str]) -> None:
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()


def _ending(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _last_lines(errors: Any) -> str:
    errors.seek(0)
    lines = [line for line in errors.read().splitlines() if line.strip()][-LAST_LINES:]
    return "".join(f"\n    {line}" for line in lines)
