"""Tracking as the driver sees it: a process for each writer that follows the run folder, and that is never waited for
but at the end, for a bounded time."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from pipelines.config.schema import TrackingConfig
from pipelines.exit_codes import ExitCode
from pipelines.problems import Problem
from pipelines.records.journal import JournalError, Sample
from pipelines.records.rollouts import RolloutRecord
from pipelines.records.run_folder import RunFolder
from pipelines.terminal.console import Console
from pipelines.tracking.order import Ending, Order
from pipelines.tracking.samples import sample_rows

_LABELS = {"wandb": "W&B", "tensorboard": "TensorBoard"}
_PREEMPTED_S = 10.0
"""Most seconds that a run which was told to stop waits for its trackers."""
_SOURCES = Path(__file__).parents[2]


class Tracker:
    """The processes of one session. Nothing here raises, whatever they do."""

    def __init__(self, config: TrackingConfig, job: str, folder: RunFolder, console: Console) -> None:
        self._config = config
        self._folder = folder
        self._console = console
        wanted = [name for name, on in (("wandb", config.wandb), ("tensorboard", config.tensorboard)) if on]
        self._processes = [_TrackingProcess(_order(name, config, job, folder.path), console) for name in wanted]
        self._samples: list[list[object]] = []
        self.exit_code: int = ExitCode.ERROR

    def conclude(
        self, code: int, samples: Callable[[], Iterable[Sample | RolloutRecord]], problems: Mapping[str, Problem]
    ) -> None:
        """The run came to its end: with this exit code, and these samples to choose from for the table. A run that was
        stopped gets its table, of which there is one, when it goes on."""
        self.exit_code = code
        if self._processes and self._config.sample_rows and code != ExitCode.PREEMPTED:
            try:
                self._samples = sample_rows(samples(), problems, self._config.sample_rows)
            except JournalError as error:
                self._console.warn(f"the trackers get no table of samples: {error}")

    def finish(self) -> None:
        """Wait until everything is written, or until time is up."""
        if not self._processes:
            return
        path = None
        if self._samples:
            path = self._folder.path / "tracking" / "samples.json"
            with suppress(OSError):
                path.parent.mkdir(exist_ok=True)
                path.write_text(json.dumps(self._samples), encoding="utf-8")
        ending = Ending(self.exit_code, str(path) if path and path.exists() else None)
        for process in self._processes:
            process.end(ending)
        patience = self._config.timeout_s
        for process in self._processes:
            process.wait(min(patience, _PREEMPTED_S) if ending.preempted else patience)


@contextmanager
def tracked(config: TrackingConfig, job: str, folder: RunFolder, console: Console) -> Iterator[Tracker]:
    """The trackers that `config` asks for, for the length of the block. The folder has its manifest."""
    tracker = Tracker(config, job, folder, console)
    try:
        yield tracker
    except SystemExit as stop:
        tracker.exit_code = stop.code if isinstance(stop.code, int) else ExitCode.ERROR
        raise
    finally:
        tracker.finish()


class _TrackingProcess:
    """A child process with a writer in it."""

    def __init__(self, order: Order, console: Console) -> None:
        self._label = _LABELS[order.writer]
        self._console = console
        self._timeout_s = order.timeout_s
        self._lock = threading.Lock()
        self._over = False
        self._process: subprocess.Popen[str] | None = None
        try:
            self._process = self._start(order)
        except OSError as error:
            self._give_up(f"its process does not start: {error}")
            return
        self._patience = threading.Timer(
            order.timeout_s, self._give_up, (f"it did not begin within {order.timeout_s:g} s",)
        )
        self._patience.daemon = True
        self._patience.start()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def end(self, ending: Ending) -> None:
        """Say that the run is over."""
        self._send(asdict(ending))

    def wait(self, seconds: float) -> None:
        """Give it so long to end."""
        if self._process is None:
            return
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._give_up(f"it did not finish within {seconds:g} s")
        self._listener.join(1.0)
        self._patience.cancel()

    def _start(self, order: Order) -> "subprocess.Popen[str]":
        folder = Path(order.folder) / "tracking"
        folder.mkdir(exist_ok=True)
        path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(_SOURCES)]))
        with (folder / f"{order.writer}.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "pipelines.tracking.process", order.folder],  # the folder is for `ps`
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C is for the driver
            )
        self._process = process
        self._send(asdict(order))
        return process

    def _send(self, content: Mapping[str, object]) -> None:
        """A line of far less than a pipe holds, so that this never waits."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.write(json.dumps(content) + "\n")
                self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("ready"):
                self._patience.cancel()
            if "say" in answer:
                self._console.say(answer["say"])
            if "failed" in answer:
                self._give_up(answer["failed"])
            if answer.get("done"):
                self._over = True
        self._give_up("its process ended unexpectedly")

    def _give_up(self, reason: str) -> None:
        """Say so, once, and leave no process behind."""
        with self._lock:
            if self._over:
                return
            self._over = True
        self._console.warn(
            f"{self._label} is off: {reason}. The run goes on; metrics.jsonl has everything, and the same command brings "
            f"{self._label} up to date"
        )
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


def _order(writer: str, config: TrackingConfig, job: str, folder: Path) -> Order:
    return Order(
        writer=writer,
        folder=str(folder),
        job=job,
        timeout_s=config.timeout_s,
        project=config.project,
        entity=config.entity,
        name=config.name,
        tags=config.tags,
        log_checkpoints=config.log_checkpoints,
    )
