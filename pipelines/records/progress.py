"""How far an evaluation is."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from pipelines.dispatch.devices import Reporting, devices, occupancy, starting
from pipelines.records.journal import VERDICTS, Sample
from pipelines.terminal.status import Status


class _Pool(Reporting, Protocol):
    @property
    def backlog(self) -> int: ...


class _Made(Protocol):
    @property
    def token_ids(self) -> tuple[int, ...]: ...


class EvaluationProgress:
    """Counts samples and tokens; accuracy runs over everything recorded, speed over this session alone."""

    def __init__(
        self, title: str, planned: int, known: Iterable[Sample], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._title = title
        self._planned = planned
        self._verdicts: Counter[str] = Counter()
        self._clock = clock
        self._began: float | None = None
        self._tokens = 0
        self._samples = 0
        self._last = 0.0
        for sample in known:
            self._verdicts[sample.verdict] += 1

    def start(self) -> None:
        """The first generator is ready: speed counts from here. Later calls change nothing."""
        if self._began is None:
            self._began = self._last = self._clock()

    def generated(self, completions: Iterable[_Made]) -> None:
        self._tokens += sum(len(made.token_ids) for made in completions)
        self._last = self._clock()

    def recorded(self, samples: Iterable[Sample]) -> None:
        for sample in samples:
            self._verdicts[sample.verdict] += 1
            self._samples += 1
        self._last = self._clock()

    def throughput(self) -> dict[str, Any]:
        """Tokens and samples of this session; seconds from the first ready generator to the last result."""
        seconds = self._last - self._began if self._began is not None else 0.0
        return {
            "samples": self._samples,
            "tokens": self._tokens,
            "seconds": round(seconds, 2),
            "tokens_per_s": round(self._tokens / seconds, 1) if seconds else 0.0,
        }

    def metrics(self) -> dict[str, Any]:
        return {
            "progress/done": self._done,
            "progress/total": self._planned,
            "eval/accuracy": self._accuracy,
            "gen/tokens_per_s": self.throughput()["tokens_per_s"],
        }

    def status(self, generators: _Pool, graders: _Pool) -> Status:
        figures, details = [], []
        if self._accuracy is not None:
            figures.append(f"accuracy {self._accuracy:.1%}")
        if speed := self.throughput()["tokens_per_s"]:
            figures.append(f"{speed:.0f} tokens/s")
        if (taken := occupancy(generators)) is not None:
            details.append(f"{taken:.0%} of the places taken")
        left = None
        if self._samples and self._began is not None:
            left = (self._planned - self._done) * (self._clock() - self._began) / self._samples
        notes = [f"{generators.counts()['ready']} generator(s) ready", *starting(generators)]
        if graders.backlog:
            notes.append(f"{graders.backlog} to grade")
        return Status(
            title=self._title,
            done=self._done,
            total=self._planned,
            unit="samples",
            seconds_left=left,
            figures=figures,
            details=details,
            verdicts={name: self._verdicts[name] for name in VERDICTS},
            devices=devices(generators),
            notes=notes,
        )

    @property
    def _done(self) -> int:
        return self._verdicts.total()

    @property
    def _accuracy(self) -> float | None:
        return self._verdicts["correct"] / self._done if self._done else None
