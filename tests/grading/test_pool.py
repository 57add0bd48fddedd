import subprocess
import sys

import pytest

from actors.resources import actor_options
from grading import GradingItem, GradingLimits, Outcome

ITEMS = [GradingItem(r"\boxed{\frac12}", "0.5"), GradingItem(r"\boxed{3}", "0.5")]


@pytest.mark.ray
def test_an_actor_grades_reports_and_closes(local_ray):
    import ray

    from grading.pool import GraderActor

    actor = GraderActor.options(**actor_options(1, 0), max_restarts=0, max_task_retries=0).remote(
        GradingLimits(deadline_s=5.0)
    )
    assert ray.get(actor.load.remote(), timeout=120)["items"] == 0
    verdicts = ray.get(actor.grade.remote(ITEMS), timeout=120)
    assert [verdict.outcome for verdict in verdicts] == [Outcome.CORRECT, Outcome.WRONG]
    report = ray.get(actor.report.remote(), timeout=30)
    assert report["items"] == 2
    assert ray.get(actor.progress.remote(), timeout=30)["items"] == 2
    assert report["pid"] != report["child_pid"]
    assert report["node_id"]
    assert report["cuda_visible_devices"] == ""
    ray.get(actor.close.remote(), timeout=30)


@pytest.mark.ray
def test_an_actor_finds_a_reward_function_where_the_driver_was_started(local_ray):
    import ray

    from grading.pool import GraderActor

    actor = GraderActor.options(num_cpus=1).remote(GradingLimits(), "tests.grading.rewards:length")
    assert ray.get(actor.load.remote(), timeout=120)["reward_items"] == 0
    verdicts = ray.get(actor.grade.remote(ITEMS), timeout=120)
    assert [(verdict.outcome, verdict.reward) for verdict in verdicts] == [(Outcome.CORRECT, 1.5), (Outcome.WRONG, 0.9)]
    ray.get(actor.close.remote(), timeout=30)


def test_importing_the_package_imports_neither_ray_nor_torch():
    code = "import sys, grading; raise SystemExit(bool({'ray', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
