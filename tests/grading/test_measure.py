from grading import GradingItem, Outcome
from grading.measure import measure_pool


def test_a_measured_pool_returns_every_verdict_in_order_and_leaves_nothing_behind():
    items = [GradingItem(rf"\boxed{{{number}}}", str(number // 2 * 2)) for number in range(300)]
    measured = measure_pool(items, workers=2)
    expected = [Outcome.WRONG if number % 2 else Outcome.CORRECT for number in range(300)]
    assert [verdict.outcome for verdict in measured.verdicts] == expected
    assert measured.outcomes == {"correct": 150, "wrong": 150}
    assert (measured.descriptors_left, measured.children_left, measured.restarts) == (0, 0, 0)
    assert all(measured.rss_kb)
