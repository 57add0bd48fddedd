"""How far a run is, in one line."""

import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from pipelines.records.journal import Sample


class _Pool(Protocol):
    @property
    def backlog(self) -> int: ...
    def counts(self) -> dict[str, int]: ...


class _Made(Protocol):
    @property
    def token_ids(self) -> tuple[int, ...]: ...


class ProgressLine:
    """Counts samples and tokens; accuracy runs over everything recorded, speed over this session alone."""

    def __init__(self, planned: int, known: Iterable[Sample], clock: Callable[[], float] = time.monotonic) -> None:
        self._planned = planned
        self._done = 0
        self._correct = 0
        self._clock = clock
        self._began: float | None = None
        self._tokens = 0
        self._samples = 0
        self._last = 0.0
        for sample in known:
            self._count(sample)

    def start(self) -> None:
        """The first generator is ready: speed counts from here. Later calls change nothing."""
        if self._began is None:
            self._began = self._last = self._clock()

    def generated(self, completions: Iterable[_Made]) -> None:
        self._tokens += sum(len(made.token_ids) for made in completions)
        self._last = self._clock()

    def recorded(self, samples: Iterable[Sample]) -> None:
        for sample in samples:
            self._count(sample)
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
            "eval/accuracy": self._correct / self._done if self._done else None,
            "gen/tokens_per_s": self.throughput()["tokens_per_s"],
        }

    def line(self, generators: _Pool, graders: _Pool) -> str:
        speed = self.throughput()
        parts = [f"{self._done}/{self._planned} samples"]
        if self._done:
            parts.append(f"accuracy {self._correct / self._done:.1%}")
        if speed["tokens_per_s"]:
            parts.append(f"{speed['tokens_per_s']:.0f} tokens/s")
        if self._samples and self._began is not None:
            left = (self._planned - self._done) * (self._clock() - self._began) / self._samples
            parts.append(f"about {duration(left)} left")
        counts = generators.counts()
        parts.append(f"{counts['ready']} generator(s) ready")
        if counts["starting"]:
            parts.append(f"{counts['starting']} starting")
        if graders.backlog:
            parts.append(f"{graders.backlog} to grade")
        return ", ".join(parts)

    def _count(self, sample: Sample) -> None:
        self._done += 1
        self._correct += sample.verdict == "correct"


def duration(seconds: float) -> str:
    """`42 s`, `5 min`, `3 h 20 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
