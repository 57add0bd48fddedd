"""The progress line."""

from dataclasses import dataclass, replace

from pipelines.records.progress import ProgressLine, duration
from tests.pipelines.records.test_journal import SAMPLE


@dataclass
class Pool:
    backlog: int = 0
    ready: int = 1

    def counts(self) -> dict[str, int]:
        return {"ready": self.ready, "starting": 0}


@dataclass
class Made:
    token_ids: tuple[int, ...]


def test_accuracy_is_over_everything_and_speed_over_this_session() -> None:
    now = [100.0]
    known = [replace(SAMPLE, problem_id=str(n)) for n in range(4)]
    progress = ProgressLine(10, known, lambda: now[0])
    progress.start()
    now[0] += 5
    progress.generated([Made((1, 2, 3))] * 10)
    progress.recorded([replace(SAMPLE, problem_id="x", verdict="wrong")])
    assert progress.throughput() == {"samples": 1, "tokens": 30, "seconds": 5.0, "tokens_per_s": 6.0}
    line = progress.line(Pool(), Pool(backlog=3))
    assert line == "5/10 samples, accuracy 80.0%, 6 tokens/s, about 25 s left, 1 generator(s) ready, 3 to grade"


def test_a_session_that_generated_nothing_has_no_speed() -> None:
    assert ProgressLine(3, []).throughput()["tokens_per_s"] == 0.0


def test_durations_are_short() -> None:
    assert [duration(s) for s in (5, 89, 300, 12000)] == ["5 s", "89 s", "5 min", "3 h 20 min"]
