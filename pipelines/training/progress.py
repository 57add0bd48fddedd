"""How far a training run is."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipelines.dispatch.devices import Reporting, devices, starting
from pipelines.terminal.status import Status

CURVE = 60
"""Steps whose reward or loss is kept for the view."""
FIGURES = (
    ("reward/mean", "reward {:.3f}"),
    ("loss/policy", "loss {:.4f}"),
    ("loss/supervised", "loss {:.4f}"),
    ("grad_norm", "grad norm {:.3g}"),
    ("completions/mean_length", "{:.0f} tokens"),
    ("time/step", "{:.1f} s a step"),
)
"""What a line says of the last step, where the step has it."""
DETAILS = (
    ("entropy", "entropy {:.3f}"),
    ("lr", "lr {:.2g}"),
    ("kl", "kl {:.3g}"),
    ("reward/frac_zero_std_groups", "{:.0%} of the groups teach nothing"),
    ("tokens/padding_share", "padding {:.0%}"),
    ("tokens/sec", "{:.0f} tokens/s"),
)
_CURVES = ("reward/mean", "loss/supervised")


class TrainingProgress:
    """Steps, the metrics of the last one, and how long those of this session took, evaluations and all."""

    def __init__(self, title: str, steps: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.done = 0
        self.accuracy: float | None = None
        """The newest that was measured on held-out problems."""
        self._title = title
        self._steps = steps
        self._clock = clock
        self._began = 0.0
        self._first = 0
        self._metrics: Mapping[str, float] = {}
        self._curve: deque[float] = deque(maxlen=CURVE)

    def begin(self, done: int, rows: Sequence[Mapping[str, Any]], accuracy: float | None) -> None:
        """The learner stands after `done` steps, which measured `rows`."""
        self.done = self._first = done
        self.accuracy = accuracy
        self._began = self._clock()
        self._curve.clear()
        for row in rows:
            self._note(row)

    def stepped(self, number: int, metrics: Mapping[str, float]) -> None:
        """Step `number` was made."""
        self.done = number
        self._note(metrics)

    def status(self, phase: str, pools: Sequence[Reporting], verdicts: Mapping[str, int]) -> Status:
        """`phase` says what goes on now, `verdicts` what became of the newest completions."""
        seconds_left = None
        if self.done > self._first:
            a_step = (self._clock() - self._began) / (self.done - self._first)
            seconds_left = a_step * (self._steps - self.done)
        figures = _shown(FIGURES, self._metrics)
        if self.accuracy is not None:
            figures.append(f"last accuracy {self.accuracy:.1%}")
        return Status(
            title=self._title,
            done=self.done,
            total=self._steps,
            unit="steps",
            phase=phase,
            seconds_left=seconds_left,
            figures=figures,
            details=_shown(DETAILS, self._metrics),
            verdicts=verdicts,
            curve=(self._curve_name, tuple(self._curve)),
            devices=[device for pool in pools for device in devices(pool)],
            notes=[note for pool in pools for note in starting(pool)],
        )

    @property
    def _curve_name(self) -> str:
        return next((name for name in _CURVES if name in self._metrics), "")

    def _note(self, metrics: Mapping[str, Any]) -> None:
        if "time/step" in metrics:
            self._metrics = metrics
            self._curve.append(metrics.get(self._curve_name, float("nan")))


def _shown(formats: Sequence[tuple[str, str]], metrics: Mapping[str, float]) -> list[str]:
    return [text.format(metrics[name]) for name, text in formats if name in metrics]
