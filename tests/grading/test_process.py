import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from grading import GraderBroken, GradingItem, GradingLimits, GradingProcess, Outcome
from grading.channel import Channel, DeadlineExceeded

STUBBORN = "tests.grading.stubborn_child"
RIGHT = GradingItem(r"\boxed{\frac12}", "0.5")
WRONG = GradingItem(r"\boxed{3}", "0.5")


def fault(name):
    return GradingItem(f"fault:{name}", "1")


def outcomes(verdicts):
    return [verdict.outcome for verdict in verdicts]


def is_running(pid):
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "zombie" not in status.read_text()


def wait_until_gone(pid, seconds):
    deadline = time.monotonic() + seconds
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_running(pid)


@pytest.fixture(scope="module")
def grader():
    with GradingProcess() as process:
        yield process


@pytest.fixture
def stubborn():
    with GradingProcess(GradingLimits(deadline_s=0.5), program=STUBBORN) as process:
        yield process


def test_one_verdict_an_item_in_order(grader):
    assert grader.grade_batch([]) == []
    verdicts = grader.grade_batch([RIGHT, WRONG, GradingItem("", "1"), RIGHT] * 10)
    assert outcomes(verdicts) == [Outcome.CORRECT, Outcome.WRONG, Outcome.UNPARSED, Outcome.CORRECT] * 10
    assert pickle.loads(pickle.dumps(verdicts)) == verdicts


def test_a_hanging_item_costs_one_verdict_and_the_others_keep_theirs(stubborn):
    verdicts = stubborn.grade_batch([RIGHT, fault("hang"), WRONG, RIGHT])
    assert outcomes(verdicts) == [Outcome.CORRECT, Outcome.TIMEOUT, Outcome.WRONG, Outcome.CORRECT]
    assert (stubborn.counters.timeouts, stubborn.counters.restarts, stubborn.counters.retries) == (1, 1, 0)


def test_a_timeout_is_reported_within_a_second_of_the_deadline(stubborn):
    started = time.monotonic()
    assert outcomes(stubborn.grade_batch([fault("hang")])) == [Outcome.TIMEOUT]
    assert time.monotonic() - started < 0.5 + 1.0


def test_a_computation_that_never_returns_to_the_interpreter_times_out(stubborn):
    assert outcomes(stubborn.grade_batch([fault("spin"), RIGHT])) == [Outcome.TIMEOUT, Outcome.CORRECT]


def test_a_stopped_child_does_not_block_a_megabyte_of_text_and_its_work_is_done_by_another(stubborn):
    os.kill(stubborn.pid, signal.SIGSTOP)
    items = [GradingItem("x" * 10**6, "1"), RIGHT, WRONG]
    assert outcomes(stubborn.grade_batch(items)) == [Outcome.UNPARSED, Outcome.CORRECT, Outcome.WRONG]
    assert (stubborn.counters.timeouts, stubborn.counters.crashes, stubborn.counters.retries) == (0, 1, 1)


@pytest.mark.parametrize("name", ["crash", "exit", "memory"])
def test_a_crash_is_tried_once_more_and_then_an_error(name):
    # With time enough to end in: on a busy machine an interpreter takes a while.
    with GradingProcess(program=STUBBORN) as process:
        verdicts = process.grade_batch([RIGHT, fault(name), WRONG])
    assert outcomes(verdicts) == [Outcome.CORRECT, Outcome.ERROR, Outcome.WRONG]
    assert (process.counters.crashes, process.counters.retries) == (2, 1)
    if name == "memory":
        assert "out of memory" in verdicts[1].reason


def test_an_exception_of_the_grader_is_an_error_and_not_a_wrong_answer(stubborn):
    verdicts = stubborn.grade_batch([fault("raise"), RIGHT])
    assert outcomes(verdicts) == [Outcome.ERROR, Outcome.CORRECT]
    assert "ZeroDivisionError" in verdicts[0].reason
    assert stubborn.counters.restarts == 0


def test_a_child_killed_mid_batch_loses_no_verdict(grader):
    crashes = grader.counters.crashes
    killer = threading.Timer(0.05, lambda: os.kill(grader.pid, signal.SIGKILL))
    killer.start()
    verdicts = grader.grade_batch([RIGHT, WRONG] * 500)
    killer.join()
    verdicts += grader.grade_batch([RIGHT, WRONG])
    assert outcomes(verdicts) == [Outcome.CORRECT, Outcome.WRONG] * 501
    assert grader.counters.crashes == crashes + 1


def test_output_of_the_child_cannot_break_the_protocol(stubborn):
    assert outcomes(stubborn.grade_batch([fault("print"), RIGHT])) == [Outcome.UNPARSED, Outcome.CORRECT]


def test_a_child_that_tries_to_write_a_file_ends_and_leaves_none(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    monkeypatch.chdir(tmp_path)
    with GradingProcess(program=STUBBORN) as process:
        verdicts = process.grade_batch([fault("file"), RIGHT])
    assert outcomes(verdicts) == [Outcome.ERROR, Outcome.CORRECT]
    assert "PermissionError" in verdicts[0].reason
    assert not list(tmp_path.iterdir())


def test_requests_sent_ahead_of_a_fault_are_answered_once(stubborn):
    items = [RIGHT, WRONG, fault("crash"), RIGHT, fault("hang"), WRONG, GradingItem("x" * 200_000, "1"), RIGHT]
    expected = [Outcome.CORRECT, Outcome.WRONG, Outcome.ERROR, Outcome.CORRECT, Outcome.TIMEOUT, Outcome.WRONG]
    assert outcomes(stubborn.grade_batch(items)) == [*expected, Outcome.UNPARSED, Outcome.CORRECT]
    assert stubborn.counters.items == len(items)


def test_an_interrupted_batch_leaves_no_replies_to_the_next_one(grader, monkeypatch):
    taken = iter([grader.supervisor._receive, None])

    def interrupted(deadline):
        receive = next(taken)
        if receive is None:
            raise KeyboardInterrupt
        return receive(deadline)

    monkeypatch.setattr(grader.supervisor, "_receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        grader.grade_batch([WRONG] * 20)
    monkeypatch.undo()
    assert outcomes(grader.grade_batch([RIGHT] * 20)) == [Outcome.CORRECT] * 20


def test_long_completions_fill_no_pipe(grader):
    items = [GradingItem("y" * length + r" \boxed{\frac12}", "0.5") for length in (10, 50_000, 100_000, 900_000) * 5]
    assert outcomes(grader.grade_batch(items)) == [Outcome.CORRECT] * len(items)
    echoed = [GradingItem("the answer is " + "z" * 3_000, "1")] * 100
    assert len(grader.grade_batch(echoed)) == 100


def test_the_child_is_recycled_after_its_share_of_items():
    with GradingProcess(GradingLimits(recycle_after=5)) as process:
        first = process.pid
        assert outcomes(process.grade_batch([RIGHT] * 12)) == [Outcome.CORRECT] * 12
        assert process.counters.recycled == 2
        assert process.pid != first
        assert wait_until_gone(first, 1)


def test_the_child_is_recycled_when_it_has_grown():
    with GradingProcess(GradingLimits(memory_mb=700), program=STUBBORN) as process:
        process.grade_batch([fault("grow"), fault("grow")])
        assert process.counters.recycled == 0
        assert outcomes(process.grade_batch([RIGHT])) == [Outcome.CORRECT]
        assert process.counters.recycled == 1


def test_grading_works_from_any_thread_and_from_several_at_once(grader):
    results = {}

    def work(index):
        results[index] = outcomes(grader.grade_batch([RIGHT, WRONG] * 20))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == {index: [Outcome.CORRECT, Outcome.WRONG] * 20 for index in range(4)}


def test_a_child_outlives_the_thread_that_started_it():
    made = []
    thread = threading.Thread(target=lambda: made.append(GradingProcess()))
    thread.start()
    thread.join(60)
    time.sleep(1.0)
    with made[0] as process:
        assert outcomes(process.grade_batch([RIGHT])) == [Outcome.CORRECT]
        assert process.counters.crashes == 0


@pytest.mark.parametrize("state", ["idle", "hang"])
def test_the_child_dies_with_its_parent(state):
    parent = subprocess.Popen(
        [sys.executable, "-m", "tests.grading.orphan_parent", state], stdout=subprocess.PIPE, text=True
    )
    child = int(parent.stdout.readline())
    assert is_running(child)
    time.sleep(0.3)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert wait_until_gone(child, 5)


def test_the_child_ignores_an_interrupt(grader):
    os.kill(grader.pid, signal.SIGINT)
    pid = grader.pid
    assert outcomes(grader.grade_batch([RIGHT])) == [Outcome.CORRECT]
    assert grader.pid == pid


def test_the_child_sees_no_gpu_and_limited_memory(grader):
    environment = Path(f"/proc/{grader.pid}/environ").read_text()
    assert "CUDA_VISIBLE_DEVICES=\0" in environment
    limits = Path(f"/proc/{grader.pid}/limits").read_text()
    assert str(grader.limits.memory_mb << 20) in limits


def test_a_child_that_finds_everything_correct_is_refused():
    with pytest.raises(GraderBroken, match="start-up test"):
        GradingProcess(program="tests.grading.lying_child")


def test_a_child_that_does_not_start_is_reported_with_its_reason():
    with pytest.raises(GraderBroken, match="No module named"):
        GradingProcess(program="tests.grading.no_such_child")


def test_a_closed_process_grades_nothing_and_leaves_no_child():
    process = GradingProcess()
    pid = process.pid
    process.close()
    process.close()
    assert not is_running(pid)
    with pytest.raises(ValueError, match="closed"):
        process.grade_batch([RIGHT])


def test_classes_are_found_in_the_child(grader):
    pid = grader.pid
    assert grader.equivalence_classes(["1/2", "0.5", None, "3"]) == [(0, 1), (3,)]
    assert grader.equivalence_classes([None, None]) == []
    assert grader.pid == pid


def test_classes_that_are_not_found_in_time_are_none_and_the_next_ones_are_found(stubborn):
    assert stubborn.equivalence_classes(["1", "fault:hang"]) is None
    assert stubborn.counters.timeouts == 1
    assert stubborn.equivalence_classes(["1", "1.0"]) == [(0, 1)]


@pytest.mark.parametrize("text", ["\ud800", "\0", "\\boxed{\ud800}", "é" * 1000])
def test_any_text_travels(grader, text):
    restarts = grader.counters.restarts
    assert len(grader.grade_batch([GradingItem(text, "1")])) == 1
    assert grader.counters.restarts == restarts


def test_limits_that_allow_nothing_are_refused():
    for wrong in ({"deadline_s": 0}, {"memory_mb": 10}, {"recycle_after": 0}):
        with pytest.raises(ValueError):
            GradingLimits(**wrong)


def test_a_channel_waits_no_longer_than_its_deadline():
    read_fd, write_fd = os.pipe()
    channel = Channel(read_fd, write_fd, blocking=False)
    with pytest.raises(DeadlineExceeded):
        channel.receive(time.monotonic() + 0.1)
    with pytest.raises(DeadlineExceeded):
        channel.send("x" * 10**6, time.monotonic() + 0.1)
    os.close(read_fd)
    os.close(write_fd)
