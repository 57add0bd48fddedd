"""A long run with hostile answers in between leaves nothing behind."""

from random import Random

from grading import GradingItem, GradingLimits
from grading.measure import measure_pool
from tests.grading.rows import read_rows

GRADES = 20_000
HOSTILE_SHARE = 0.02
GROWTH_KB = 32 << 10
"""What a child may grow by: caches of bounded size, filled."""


def test_twenty_thousand_grades_leave_no_process_and_no_descriptor_and_memory_is_flat():
    rng = Random(40)
    good, hostile = (
        [(row["pred"], row["gold"]) for row in read_rows(name)] for name in ("pairs.jsonl", "hostile.jsonl")
    )
    items = []
    for _ in range(GRADES):
        answer, gold = rng.choice(hostile if rng.random() < HOSTILE_SHARE else good)
        items.append(GradingItem(rf"so \boxed{{{answer}}}", gold))
    measured = measure_pool(items, workers=2, limits=GradingLimits(recycle_after=100_000))
    assert len(measured.verdicts) == GRADES
    assert set(measured.outcomes) <= {"correct", "wrong", "unparsed"}
    assert (measured.descriptors_left, measured.children_left, measured.restarts) == (0, 0, 0)
    for first, last in zip(measured.first_rss_kb, measured.rss_kb, strict=True):
        assert last - first < GROWTH_KB
