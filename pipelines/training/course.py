"""The course of a training run: its folder, its steps, its evaluations, its checkpoints, and how it ends."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from actors.engine.requests import SamplingParams
from actors.learner import LearnerReport
from pipelines.config import TrainingConfig, dump_config
from pipelines.dispatch.signals import StopFlag
from pipelines.exit_codes import ExitCode
from pipelines.records.incidents import incident_counts
from pipelines.records.journal import Sample
from pipelines.records.provenance import provenance
from pipelines.records.run_folder import RunFolder
from pipelines.records.steps import StepLines
from pipelines.terminal.console import Console
from pipelines.training.crew import Crew
from pipelines.training.held_out import HeldOut
from pipelines.training.progress import TrainingProgress
from pipelines.training.task import TrainingTask

PHASES = ("generate", "learn", "sync")


class StepReport(dict[str, float]):
    """The metrics of a step that is on its way."""

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Count the seconds of the block as `time/<phase>`."""
        start = time.perf_counter()
        yield
        self[f"time/{phase}"] = time.perf_counter() - start


class Course:
    """What is recorded of a run while it goes on. Open from the first step to `conclude`."""

    def __init__(
        self,
        config: TrainingConfig,
        task: TrainingTask,
        folder: RunFolder,
        console: Console,
        stop: StopFlag,
        command: str,
        steps: int,
    ) -> None:
        """Raises OtherConfiguration where the folder holds another run."""
        self.console = console
        self.stop = stop
        self.max_losses = config.cluster.max_restarts
        self._config = config
        self._folder = folder
        self._steps = steps
        self._task = task
        self._origin = provenance(command)
        identity = task.identity | {"schedule.steps": steps if config.optimizer.decay != "constant" else None}
        folder.claim(identity, {"provenance": self._origin, "config": config.model_dump(mode="json")})
        folder.write_text(folder.config_path, dump_config(config))
        self.incidents = folder.incidents(console)
        self.metrics = StepLines(folder.path / "metrics.jsonl")
        self._evaluations = StepLines(folder.path / "evaluations.jsonl")
        self._lines = [self.metrics, self._evaluations]
        self.progress = TrainingProgress(f"{config.model.name} trained on {config.data.source}", steps)
        self._scores: dict[int, float] = {}
        self._held_out = (
            HeldOut(
                task.held_out,
                SamplingParams(**dict(config.evaluation.sampling)),
                folder.path / "evaluations",
            )
            if task.held_out
            else None
        )

    @property
    def complete(self) -> bool:
        """An earlier session did all steps."""
        last = self._folder.last_summary()
        return last.get("status") == "complete" and last.get("steps") == self._steps

    def lines(self, name: str) -> StepLines:
        """One more file of the run with lines for its steps."""
        self._lines.append(StepLines(self._folder.path / name))
        return self._lines[-1]

    def begin(self, report: LearnerReport) -> None:
        """The learner stands at its checkpoint: what was recorded of later steps will be recorded again."""
        for lines in self._lines:
            lines.rewind(report.step)
        if self._held_out:
            self._held_out.forget_after(report.step)
        self._scores = {row["step"]: row["accuracy"] for row in self._evaluations.rows()}
        newest = self._scores.get(max(self._scores, default=-1))
        self.progress.begin(report.step, self.metrics.rows(), newest)
        if report.step:
            self.console.say(f"going on from {report.checkpoint}: {report.step} of {self._steps} steps are done")

    @contextmanager
    def step(self, number: int) -> Iterator[StepReport]:
        """Record step `number`, counted from 1, if the block comes to its end."""
        report = StepReport()
        start = time.perf_counter()
        yield report
        report["time/step"] = time.perf_counter() - start
        if "tokens/generated" in report:
            report["tokens/sec"] = report["tokens/generated"] / report["time/step"]
        self.metrics.append({"step": number, "time": time.time(), **report})
        self.progress.stepped(number, report)

    def evaluation_due(self, step: int) -> bool:
        """Whether there is to be one after `step` steps: where the configuration says so, and at the end."""
        every = self._config.evaluation.every
        return self._held_out is not None and step not in self._scores and (step % every == 0 or step == self._steps)

    def evaluate_if_due(self, crew: Crew, step: int) -> None:
        """Evaluate after `step` steps, if that is due; the generators must hold the weights of that step."""
        if self._held_out is None or not self.evaluation_due(step):
            return
        start = time.perf_counter()
        found = self._held_out.evaluate(crew, step) | {"seconds": time.perf_counter() - start}
        self._evaluations.append(found)
        self._scores[step] = self.progress.accuracy = found["accuracy"]
        self.note(step, {"eval/accuracy": found["accuracy"]})
        low, high = found["interval_95"]
        self.console.say(
            f"evaluation after {step} steps: {found['accuracy']:.1%} of {found['n']} "
            f"(95 % interval {low:.1%} to {high:.1%}), {found['seconds']:.1f} s"
        )

    def evaluated(self) -> Iterable[Sample]:
        """The samples of the newest evaluation."""
        return self._held_out.newest() if self._held_out else ()

    def note(self, step: int, metrics: Mapping[str, float]) -> None:
        """Record what was measured after `step` steps, beside the metrics of the step itself."""
        self.metrics.append({"step": step, "time": time.time(), **metrics})

    def save_if_due(self, crew: Crew, step: int) -> None:
        """Write a checkpoint after `step` steps where the configuration says so, and at the end."""
        if step % self._config.checkpoints.every == 0 or step == self._steps:
            crew.learn("save", {}, self._scores.get(step))

    def conclude(self) -> tuple[dict[str, Any], ExitCode]:
        """Write summary.json; returns it with the exit code."""
        last = self._folder.last_summary()
        if self.complete:
            return last, ExitCode.COMPLETE
        finished = self.progress.done == self._steps
        code = ExitCode.COMPLETE if finished else ExitCode.PREEMPTED
        rows = [row for row in self.metrics.rows() if "time/step" in row]
        evaluations = self._evaluations.rows()
        best = max(evaluations, key=lambda row: row["accuracy"], default=None)
        faults = [row.get("grading/timeout_frac", 0.0) + row.get("grading/error_frac", 0.0) for row in rows]
        fault_share = sum(faults) / len(faults) if faults else 0.0
        if finished and fault_share > self._config.run.max_error_share:
            code = ExitCode.ABOVE_ERROR_THRESHOLD
        summary = {
            "status": "complete" if finished else "preempted" if self.stop() else "unfinished",
            "model": self._config.model.name,
            "data": self._config.data.source,
            "steps": self._steps,
            "done": self.progress.done,
            "last": rows[-1] if rows else None,
            "first": rows[0] if rows else None,
            "evaluations": [{key: row[key] for key in ("step", "accuracy", "interval_95", "n")} for row in evaluations],
            "best_step": best["step"] if best else None,
            "time": phase_means(rows),
            "fault_share": fault_share,
            "incidents": incident_counts(self._folder.events_path),
            "tokens": sum(row.get("tokens/generated", 0) for row in rows),
            "checkpoints": sorted(path.name for path in (self._folder.path / "checkpoints").glob("step_*")),
            "run_dir": str(self._folder.path),
            "identity": json.loads(json.dumps(self._task.identity)),
            "provenance": self._origin,
        }
        self._folder.write_json(self._folder.summary_path, summary)
        return summary, code


def phase_means(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Mean seconds of a step and of its phases."""
    names = [name for name in ("step", *PHASES) if any(f"time/{name}" in row for row in rows)]
    return {name: round(sum(row.get(f"time/{name}", 0.0) for row in rows) / len(rows), 3) for name in names}
