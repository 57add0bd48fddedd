"""What the run tells a tracking process: an order at its beginning, an ending at the end. Plain values, for a pipe."""

from dataclasses import dataclass

COLUMNS = ("step", "problem_id", "sample", "problem", "completion", "answer", "gold", "verdict", "reward")
"""Of the table of samples."""


@dataclass(frozen=True, slots=True)
class Order:
    """`folder` is the run folder; its manifest.json has the configuration and where the run comes from."""

    writer: str
    """A key of WRITERS."""
    folder: str
    job: str
    timeout_s: float
    project: str = "mathlete"
    entity: str | None = None
    name: str | None = None
    tags: tuple[str, ...] = ()
    log_checkpoints: bool = False


@dataclass(frozen=True, slots=True)
class Ending:
    """How the run ended. None for an exit code: the driver was killed."""

    exit_code: int | None
    samples: str | None = None
    """Path of a JSON file with the rows of the table of samples."""

    @property
    def preempted(self) -> bool:
        """Stopped in good order, to go on later."""
        return self.exit_code == 143
