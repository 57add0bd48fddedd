"""A child cannot outlast its time, and whatever becomes of it is told."""

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

import pytest

from pipelines.bench.child import LAST_LINES, ChildError, run_child


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie that nobody has waited for yet is dead all the same.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def wait_for_death(pid: int) -> None:
    deadline = time.monotonic() + 10
    while alive(pid):
        assert time.monotonic() < deadline, f"{pid} lives on"
        time.sleep(0.01)


def test_the_result_is_the_last_object_whatever_else_is_printed() -> None:
    assert run_child(python("print('Loading'); print('{\"a\": 1}'); print('bye')"), 30) == {"a": 1}


def test_a_crash_is_told_with_its_code_and_last_lines() -> None:
    code = f"import sys\nfor line in range({LAST_LINES} + 3): print('line', line, file=sys.stderr)\nsys.exit(7)"
    with pytest.raises(ChildError) as caught:
        run_child(python(code), 30)
    assert "exit code 7" in str(caught.value)
    assert f"line {LAST_LINES + 2}" in str(caught.value)
    assert "line 2" not in str(caught.value).split()


def test_a_death_by_signal_is_named() -> None:
    with pytest.raises(ChildError, match="SIGKILL"):
        run_child(python("import os; os.kill(os.getpid(), 9)"), 30)


def test_a_child_without_a_result_is_told() -> None:
    with pytest.raises(ChildError, match="without a result"):
        run_child(python("print('done')"), 30)


def test_a_child_that_hangs_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    code = (
        "import os, subprocess, sys, time, pathlib\n"
        "other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], stdout=subprocess.DEVNULL)\n"
        f"pathlib.Path({str(note)!r}).write_text(f'{{os.getpid()}} {{other.pid}}')\n"
        "print('about to hang', file=sys.stderr, flush=True)\n"
        "time.sleep(60)"
    )
    with pytest.raises(ChildError, match=r"killed: no result within 2 s\n    about to hang"):
        run_child(python(code), 2)
    for pid in note.read_text().split():
        wait_for_death(int(pid))


def test_a_child_does_not_outlive_an_interrupted_command(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = f"import os, pathlib, time; pathlib.Path({str(note)!r}).write_text(str(os.getpid())); time.sleep(60)"

    def interrupt(number: int, frame: FrameType | None) -> None:
        if note.exists():
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_child(python(code), 30)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    wait_for_death(int(note.read_text()))
