"""Stop requests, in a real child process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, time
from pipelines.dispatch.signals import StopFlag
stop = StopFlag()
stop.install(immediate={immediate})
print("ready", flush=True)
while not stop():
    time.sleep(0.01)
print("asked by", stop.requested, flush=True)
time.sleep({linger})
"""


def start(immediate: bool, linger: float = 0.0) -> subprocess.Popen[str]:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(immediate=immediate, linger=linger)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    return program


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_sets_the_flag_and_the_program_goes_on_to_its_end(number: signal.Signals) -> None:
    program = start(immediate=False)
    program.send_signal(number)
    out, _ = program.communicate(timeout=20)
    assert (out, program.returncode) == (f"asked by {number.name}\n", 0)


def test_before_there_is_work_a_signal_ends_the_program_at_once() -> None:
    program = start(immediate=True)
    program.send_signal(signal.SIGTERM)
    assert program.wait(timeout=20) == 143


def test_a_second_signal_does_not_wait() -> None:
    program = start(immediate=False, linger=60)
    program.send_signal(signal.SIGINT)
    assert program.stdout is not None
    assert program.stdout.readline() == "asked by SIGINT\n"
    os.kill(program.pid, signal.SIGTERM)
    assert program.wait(timeout=20) == 143


LOST = """
import os, signal, sys, weakref
from pipelines.dispatch.signals import StopFlag
stop = StopFlag()
class Thing: pass
thing = Thing()
weakref.finalize(thing, os.kill, os.getpid(), signal.SIGTERM)
def another_handler(number, frame):
    sys.exit(number)
with stop.remembering():
    signal.signal(signal.SIGTERM, another_handler)
    try:
        del thing  # the handler's exception is raised in a callback here
    except SystemExit:
        pass
    stop.install(immediate=False)
print("asked by", stop.requested, flush=True)
"""


def test_a_signal_is_remembered_whatever_another_handler_makes_of_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOST], capture_output=True, text=True, timeout=20, cwd=Path(__file__).parents[3]
    )
    assert (done.stdout, done.returncode) == ("asked by SIGTERM\n", 0), done.stderr
