"""What one run of a contender gave."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Measurement:
    """Sizes in bytes, times in seconds. Empty fields are such as the contender does not tell."""

    lengths: tuple[int, ...]
    """Useful tokens of each completion, in the order of the work: up to its EOS, which counts."""
    seconds: float
    peak_resident: int
    """Most memory that the process ever had, its libraries and the loading of the model included."""
    first_token_s: float | None = None
    """Until every completion had its first token."""
    order: tuple[int, ...] = ()
    """Places in the work in the order of their first tokens."""
    steps: tuple[tuple[float, float], ...] = ()
    """(mean context a row, seconds) of each step in which every row decoded."""
    memory: Mapping[str, int] | None = None
    engine: Mapping[str, Any] | None = None
    chunks: tuple[tuple[int, float, bool], ...] = ()
    """(tokens, seconds, whether requests still waited at its end) of each part of the run."""
    peak_working: int = 0
    """Most memory that was resident after loading and warming up."""
    peak_device: int | None = None
    """Most of a GPU's memory that was taken."""
    limit_share: float | None = None
    """Least time that the machine's limits allow, over the time that it took."""

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> "Measurement":
        """From what a child printed."""
        steps = tuple((context, seconds) for context, seconds in found.get("steps", ()))
        return cls(
            lengths=tuple(found["lengths"]),
            seconds=found["seconds"],
            peak_resident=found["peak_resident"],
            first_token_s=found.get("first_token_s"),
            order=tuple(found.get("order", ())),
            steps=steps,
            memory=found.get("memory"),
            engine=found.get("engine"),
            chunks=tuple((tokens, seconds, waiting) for tokens, seconds, waiting in found.get("chunks", ())),
            peak_working=found.get("peak_working", found["peak_resident"]),
            peak_device=found.get("peak_device"),
            limit_share=found.get("limit_share"),
        )

    @property
    def useful_tokens(self) -> int:
        return sum(self.lengths)

    @property
    def tokens_per_s(self) -> float:
        return self.useful_tokens / self.seconds

    def __str__(self) -> str:
        return f"{self.useful_tokens} tokens in {self.seconds:.3g} s, {self.tokens_per_s:.4g} tokens/s"

    def as_json(self) -> dict[str, Any]:
        """For a result file: without the single steps."""
        return {
            "useful_tokens": self.useful_tokens,
            "seconds": self.seconds,
            "tokens_per_s": self.tokens_per_s,
            "first_token_s": self.first_token_s,
            "lengths": list(self.lengths),
            "peak_resident": self.peak_resident,
            "memory": self.memory,
            "engine": self.engine,
            "peak_working": self.peak_working,
            "peak_device": self.peak_device,
            "chunks": [list(chunk) for chunk in self.chunks],
            "limit_share": self.limit_share,
        }
