"""The process that follows a run folder and tells a writer: `python -m pipelines.tracking.process`.

It is apart from the driver because what it calls may raise, hang, register exit hooks and replace signal handlers. It
gets an Order as the first line of its standard input, and an Ending as the second, or the end of the input where the
driver was killed. It answers on standard output with lines that have `say`, `ready`, `failed` or `done`.
"""

import fcntl
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from pipelines.tracking.order import Ending, Order
from pipelines.tracking.points import Tail, points
from pipelines.tracking.secrets import secret_values, without_secrets
from pipelines.tracking.tensorboard_writer import TensorboardWriter
from pipelines.tracking.wandb_writer import WandbWriter
from pipelines.tracking.writer import TrackingError, Writer

WRITERS: dict[str, Callable[[Order], Writer]] = {"wandb": WandbWriter, "tensorboard": TensorboardWriter}
POLL_S = 0.5


class Follower:
    """Brings everything that a run folder has to a writer, and then what comes to it.

    Where the writer raises it gets a second beginning, once, and all points again: it knows which it has.
    """

    def __init__(self, folder: Path, writer: Writer) -> None:
        self._folder = folder
        self._writer = writer
        self._tail = Tail(folder / "metrics.jsonl")
        self._began_again = False

    def follow(self) -> None:
        """Tell what is new."""
        self._attempt(self._tell)

    def finish(self, ending: Ending) -> None:
        """Tell what is new, and that this is all."""

        def finish() -> None:
            self._tell()
            self._writer.finish(ending)

        self._attempt(finish)

    def _attempt(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:
            if self._began_again:
                raise
            self._began_again = True
            self._writer.begin_again()
            self._tail = Tail(self._folder / "metrics.jsonl")
            work()

    def _tell(self) -> None:
        for row in self._tail.new_rows():
            for point in points(row):
                self._writer.log(point)
        for path in sorted((self._folder / "checkpoints").glob("step_*")):
            self._writer.log_checkpoint(path)


def main() -> int:
    """Serve one run; returns 0 if the writer got everything."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the driver says when to stop
        signal.signal(number, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing that a library prints gets between the answers
    order = Order(**json.loads(sys.stdin.readline()))
    endings = _listen(order.timeout_s)
    try:
        writer = WRITERS[order.writer](order)
        with _alone(order):
            _answer(answers, ready=True, say=writer.begin())
            follower = Follower(Path(order.folder), writer)
            ending = None
            while ending is None:
                follower.follow()
                with suppress(queue.Empty):
                    ending = endings.get(timeout=POLL_S)
            follower.finish(ending)
            _answer(answers, done=True)
    except TrackingError as error:
        _answer(answers, failed=str(error))
    except Exception as error:
        _answer(answers, failed=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
        raise
    else:
        return 0
    return 1


def _listen(timeout_s: float) -> "queue.Queue[Ending]":
    """Where the Ending arrives. From then on the process has so many seconds to end, whatever hangs."""
    endings: queue.Queue[Ending] = queue.Queue()

    def listen() -> None:
        line = sys.stdin.readline()
        deadline = threading.Timer(timeout_s, os._exit, (3,))
        deadline.daemon = True
        deadline.start()
        endings.put(Ending(**json.loads(line)) if line.endswith("\n") else Ending(None))

    threading.Thread(target=listen, daemon=True).start()
    return endings


def _alone(order: Order) -> TextIO:
    """Wait for the process of an earlier session, whose driver was killed, to be done."""
    folder = Path(order.folder) / "tracking"
    folder.mkdir(exist_ok=True)
    lock = (folder / f"{order.writer}.lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _answer(answers: TextIO, **content: Any) -> None:
    with suppress(BrokenPipeError):  # the driver was killed, and nobody is left to tell
        answers.write(json.dumps(without_secrets(content, secret_values())) + "\n")


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # exit hooks of libraries have nothing left to do, and may hang
