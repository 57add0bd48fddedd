"""What was started for a driver ends soon after it, even when the driver is killed; real processes."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipelines.dispatch.reaper import PATIENCE_S

PROGRAM = """
import subprocess, sys, time
from pipelines.dispatch.reaper import Reaper
reaper = Reaper()
def orphan():
    code = "import subprocess, os; print(subprocess.Popen(['sleep', '600'], start_new_session=True, stdout=subprocess.DEVNULL).pid, flush=True)"
    return subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True).stdout.strip()
with reaper.marked():
    inside = orphan()
print(inside, orphan(), flush=True)
if {release}:
    reaper.release()
time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("release", [False, True], ids=["the driver is killed", "the driver is done with them"])
def test_orphans_of_the_block_are_ended_and_others_are_not(release: bool) -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(release=release)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert driver.stdout is not None
    inside, outside = map(int, driver.stdout.readline().split())
    try:
        assert is_alive(inside)
        if not release:
            driver.kill()
        ended = time.monotonic()
        while is_alive(inside):
            assert time.monotonic() - ended < PATIENCE_S + 4
            time.sleep(0.05)
        assert time.monotonic() - ended > PATIENCE_S - 1  # they may end by themselves until then
        assert is_alive(outside)
    finally:
        driver.kill()
        driver.wait()
        for pid in (inside, outside):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
