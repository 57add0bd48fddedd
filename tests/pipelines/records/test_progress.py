"""How far an evaluation is."""

from dataclasses import dataclass, field, replace
from typing import Any

from actors.generator import GeneratorReport
from actors.resources import Placement
from pipelines.records.progress import EvaluationProgress
from pipelines.terminal.status import Device
from tests.pipelines.records.test_journal import SAMPLE

REPORT = GeneratorReport(
    placement=Placement("node", "10.0.0.1", 77, ("3",)),
    device="cuda",
    device_name="H200",
    dtype="bfloat16",
    engine="continuous",
    threads=1,
    nice=0,
    parameters=1,
    context_length=None,
    memory_total=0,
    memory_free=0,
    load_seconds=1.0,
    revision=None,
)
COUNTERS = {"row_steps": 90, "place_steps": 100, "tokens_sampled": 90, "busy_s": 3.0, "live_rows": 8, "waiting": 2}


@dataclass
class Pool:
    backlog: int = 0
    reports: dict[str, Any] = field(default_factory=lambda: {"generator-0": REPORT, "generator-1": REPORT})
    progress: dict[str, Any] = field(default_factory=lambda: {"generator-0": COUNTERS})

    def counts(self) -> dict[str, int]:
        return {"ready": 2, "starting": 1}


@dataclass
class Made:
    token_ids: tuple[int, ...]


def test_accuracy_is_over_everything_and_speed_over_this_session() -> None:
    now = [100.0]
    known = [replace(SAMPLE, problem_id=str(n)) for n in range(4)]
    progress = EvaluationProgress("a model", 10, known, lambda: now[0])
    progress.start()
    now[0] += 5
    progress.generated([Made((1, 2, 3))] * 10)
    progress.recorded([replace(SAMPLE, problem_id="x", verdict="wrong")])
    assert progress.throughput() == {"samples": 1, "tokens": 30, "seconds": 5.0, "tokens_per_s": 6.0}
    status = progress.status(Pool(), Pool(backlog=3))
    assert status.line() == (
        "5/10 samples, accuracy 80.0%, 6 tokens/s, about 25 s left, 2 generator(s) ready, 1 starting, 3 to grade"
    )
    assert status.verdicts == {"correct": 4, "wrong": 1, "unparsed": 0, "timeout": 0, "error": 0}
    assert status.details == ["90% of the places taken"]
    assert status.devices == [
        Device("generator-0", "H200 (GPU 3) on 10.0.0.1", 8, 2, 0.9, 30.0),
        Device("generator-1", "H200 (GPU 3) on 10.0.0.1"),
    ]


def test_a_session_that_generated_nothing_has_no_speed() -> None:
    assert EvaluationProgress("a model", 3, []).throughput()["tokens_per_s"] == 0.0
