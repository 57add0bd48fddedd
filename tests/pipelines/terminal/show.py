"""A program with a live view, for tests on a pseudo-terminal: `python -m tests.pipelines.terminal.show HOW`."""

import logging
import os
import signal
import sys
import time

from pipelines.terminal.console import Console
from pipelines.terminal.status import Device, Status


def status(done: int) -> Status:
    return Status(
        title="a run",
        done=done,
        total=20,
        unit="samples",
        phase="step-3: 5 of 8 completions",
        seconds_left=12.0,
        figures=["accuracy 41.2%", "570 tokens/s"],
        details=["93% of the places taken"],
        verdicts={"correct": 7, "wrong": 2, "unparsed": 1, "timeout": 0, "error": 0},
        curve=("reward/mean", [0.1, 0.2, float("nan"), 0.4]),
        devices=[Device("generator-0", "CPU, 2 threads on 127.0.0.1", 8, 3, 0.93, 570.0)],
        notes=["1 starting"],
    )


def main(how: str) -> None:
    now = [0.0]
    console = Console(clock=lambda: now[0])
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    console.say("before")
    try:
        for done in range(1, 21):
            console.show(lambda done=done: status(done))
            now[0] += 1.0
            time.sleep(0.05)
            if how == "resized" and done in (3, 9):
                signal.sigwait({signal.SIGUSR1})
            if done == 5:
                console.warn("an actor died")
            if done == 8:
                print("printed by a library")
                print("half a line", end="", file=sys.stderr)
                print(" and its end", file=sys.stderr)
                logging.getLogger().warning("logged by a library")
            if done == 12 and how == "raise":
                raise ValueError("broken in the middle")
            if done == 12 and how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
    finally:
        console.close()
    console.say("after")


if __name__ == "__main__":
    main(sys.argv[1])
