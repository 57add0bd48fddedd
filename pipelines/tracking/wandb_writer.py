"""A run in Weights & Biases."""

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pipelines.tracking.order import COLUMNS, Ending, Order
from pipelines.tracking.points import EVALUATION_AXIS, PROGRESS_AXIS, TRAINING_AXIS, Point, Sent
from pipelines.tracking.secrets import secret_values, without_secrets
from pipelines.tracking.wandb_files import read_kept
from pipelines.tracking.writer import TrackingError

_TRAINER_STATE = "trainer.safetensors"
"""The file of a checkpoint that only the learner reads: three times the size of the weights."""
_NOT_RESULTS = ("identity", "provenance", "first", "last", "evaluations", "checkpoints", "run_dir")


class WandbWriter:
    """One W&B run for the whole life of a run folder, whatever happens to its sessions."""

    label = "W&B"

    def __init__(self, order: Order) -> None:
        self._order = order
        self._folder = Path(order.folder)
        self._secrets = secret_values()
        self._run: Any = None
        self._sent = Sent()
        self._step: int | None = None
        """W&B's own step where this process counts it: offline, where W&B does not know of earlier sessions."""
        self._defined: set[str] = set()
        self._logged_checkpoints: set[str] = set()

    def begin(self) -> str:
        """Open the run, the same one as in earlier sessions; returns where it is.

        Online where W&B finds a key, else offline. Raises TrackingError where W&B cannot be used at all.
        """
        try:
            import wandb
        except ImportError as error:
            raise TrackingError(f"it is not installed (pip install wandb): {error}") from error
        why = ""
        try:
            self._run = self._open(None)
        except wandb.errors.UsageError as error:
            why = f" ({_first_line(error)})"
        except wandb.Error as error:
            why = f" (online failed: {_first_line(error)})"
            wandb.teardown()
        if self._run is None:
            self._run = self._open("offline")
        run_id, local = self._run.id, self._folder / "wandb"
        kept = read_kept(local, run_id)
        self._logged_checkpoints = kept.checkpoints
        if self._run.offline:
            self._sent, self._step = kept.sent, kept.next_step
            return f"W&B run {run_id}: offline{why}; `wandb sync {local}` uploads it"
        known = {axis: self._run.summary.get(axis) for axis in (TRAINING_AXIS, EVALUATION_AXIS, PROGRESS_AXIS)}
        self._sent = Sent(axes={axis: int(step) for axis, step in known.items() if step is not None})
        return f"W&B run {run_id}: {self._run.url}"

    def begin_again(self) -> None:
        """Replace W&B's service, which was killed: a stopped job signals every process below its driver."""
        import wandb

        with suppress(Exception):  # it says that the service is gone
            wandb.teardown()
        self._run, self._defined = None, set()
        self.begin()

    def log(self, point: Point) -> None:
        """Log what is new of `point`."""
        new = self._sent.news(point)
        if new is None:
            return
        for name in new.values:
            self._define(name.partition("/")[0] + "/*" if "/" in name else name, new.axis)
        self._write({**new.values, new.axis: new.step, "_timestamp": new.time})

    def log_checkpoint(self, path: Path) -> None:
        """Upload model and tokenizer of a checkpoint, once."""
        import wandb

        if not self._order.log_checkpoints or path.name in self._logged_checkpoints:
            return
        artifact = wandb.Artifact(f"model-{self._run.id}", type="model", metadata={"step": int(path.name[5:])})
        try:
            for file in sorted(path.iterdir()):
                if file.name != _TRAINER_STATE:
                    artifact.add_file(str(file), name=file.name)
        except FileNotFoundError:  # the learner deletes old checkpoints
            return
        self._run.log_artifact(artifact, aliases=["latest", path.name])
        self._logged_checkpoints.add(path.name)

    def finish(self, ending: Ending) -> None:
        """Log the table of samples and the results, and close the run."""
        import wandb

        if ending.samples is not None:
            rows = without_secrets(json.loads(Path(ending.samples).read_text(encoding="utf-8")), self._secrets)
            if rows:
                self._write({"samples": wandb.Table(columns=list(COLUMNS), data=rows)})
        if ending.exit_code is not None:
            self._run.summary.update(without_secrets(self._results(), self._secrets))
        if ending.preempted:
            self._run.mark_preempting()
        self._run.finish(exit_code=1 if ending.exit_code is None else ending.exit_code)

    def _open(self, mode: Any) -> Any:
        import wandb

        order = self._order
        # Whatever W&B keeps lies in the run folder, artifacts that wait for an upload included.
        os.environ.setdefault("WANDB_DATA_DIR", str(self._folder / "wandb"))
        return wandb.init(
            project=order.project,
            entity=order.entity,
            name=order.name or self._folder.name,
            id=_run_id(self._folder / "wandb" / "run_id"),
            resume="allow",
            job_type=order.job,
            tags=list(order.tags),
            config=without_secrets(self._origin(), self._secrets),
            mode=mode,
            dir=str(self._folder),
            settings=wandb.Settings(
                init_timeout=max(1.0, order.timeout_s / 2),
                finish_timeout=max(1.0, order.timeout_s * 0.8),
                x_transaction_log_flush_interval=1.0,
                console="off",
                silent=True,
                disable_git=True,
                disable_code=True,
            ),
        )

    def _origin(self) -> dict[str, Any]:
        """The configuration, and under `provenance` where the run comes from."""
        manifest = json.loads((self._folder / "manifest.json").read_text(encoding="utf-8"))
        return {**manifest["config"], "provenance": manifest["provenance"]}

    def _results(self) -> dict[str, Any]:
        try:
            summary = json.loads((self._folder / "summary.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return dict(flat_results({name: value for name, value in summary.items() if name not in _NOT_RESULTS}))

    def _write(self, values: dict[str, Any]) -> None:
        self._run.log(values, step=self._step, commit=True)
        if self._step is not None:
            self._step += 1

    def _define(self, name: str, axis: str) -> None:
        """Values of this name are drawn along `axis`."""
        if name in self._defined:
            return
        if axis not in self._defined:
            self._run.define_metric(axis, hidden=True)
        self._run.define_metric(name, step_metric=axis)
        self._defined |= {axis, name}


def flat_results(tree: Mapping[str, Any], path: str = "result") -> Iterator[tuple[str, Any]]:
    """The findings in a summary by path: `result/by_level/5/accuracy`. Intervals become `…/low` and `…/high`."""
    for name, value in tree.items():
        here = f"{path}/{name}"
        if isinstance(value, Mapping):
            yield from flat_results(value, here)
        elif name == "interval_95" and value is not None:
            yield from ((f"{here}/low", value[0]), (f"{here}/high", value[1]))
        elif isinstance(value, int | float | str):
            yield here, value


def _run_id(path: Path) -> str:
    """The id in this file, which is made at the first time."""
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        draft = path.with_suffix(".draft")
        draft.write_text(secrets.token_hex(4))
        draft.replace(path)
    return path.read_text().strip()


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(". ")
