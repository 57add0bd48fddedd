"""The same verdicts wherever grading is called from."""

import subprocess
import sys
import threading

import pytest

from grading import GradingItem, GradingProcess, grade
from tests.grading.rows import read_rows

ITEMS = [GradingItem(rf"so \boxed{{{row['pred']}}}", row["gold"]) for row in read_rows("pairs.jsonl")[:150]]
EXPECTED = [grade(item.completion, item.gold) for item in ITEMS]

WITHOUT_SIGNALS = """
import signal, sys, threading
from grading import GradingProcess, grade
from tests.grading.test_contexts import EXPECTED, ITEMS

for number in (signal.SIGALRM, signal.SIGCHLD, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN if number != signal.SIGCHLD else signal.SIG_DFL)
verdicts = []

def work():
    verdicts.append([grade(item.completion, item.gold) for item in ITEMS])
    with GradingProcess() as process:
        verdicts.append(process.grade_batch(ITEMS))

thread = threading.Thread(target=work)
thread.start()
thread.join()
sys.exit(verdicts != [EXPECTED, EXPECTED])
"""


def in_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join(120)
    return found[0]


def test_a_thread_gets_the_same_verdicts():
    assert in_thread(lambda: [grade(item.completion, item.gold) for item in ITEMS]) == EXPECTED
    with GradingProcess() as process:
        assert in_thread(lambda: process.grade_batch(ITEMS)) == EXPECTED


def test_a_process_without_signal_handlers_gets_the_same_verdicts():
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_SIGNALS], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.ray
def test_an_asynchronous_actor_gets_the_same_verdicts(local_ray):
    import ray

    @ray.remote(num_cpus=1)
    class Asynchronous:
        async def directly(self, items):
            return [grade(item.completion, item.gold) for item in items]

        async def in_a_process(self, items):
            with GradingProcess() as process:
                return process.grade_batch(items)

    actor = Asynchronous.remote()
    assert ray.get(actor.directly.remote(ITEMS), timeout=120) == EXPECTED
    assert ray.get(actor.in_a_process.remote(ITEMS), timeout=120) == EXPECTED
