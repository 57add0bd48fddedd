import contextlib
import time
from pathlib import Path

import pytest

from grading import GraderBroken, GradingItem, GradingLimits, Outcome
from grading.pool import Grader
from grading.reward_function import RewardFunction

MODULE = "tests.grading.rewards"


def items(*completions):
    return [GradingItem(completion, "0.5") for completion in completions]


def running_in_group(leader):
    """Process ids of the group, without zombies."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # gone meanwhile
            state, _, group = path.read_text().rpartition(")")[2].split()[:3]
            if int(group) == leader and state != "Z":
                found.append(path.parent.name)
    return found


@pytest.fixture(scope="module")
def to_order():
    """A function that does what the completion says."""
    function = RewardFunction(f"{MODULE}:to_order", GradingLimits(deadline_s=0.5))
    yield function
    function.close()


@pytest.fixture
def grader():
    made = []

    def load(name):
        made.append(Grader(GradingLimits(deadline_s=5.0), f"{MODULE}:{name}"))
        made[0].load()
        return made[0]

    yield load
    made[0].close()


def test_a_verdict_carries_the_reward_and_is_none_the_less_the_graders(grader):
    loaded = grader("length")
    right, wrong = loaded.grade(items(r"\boxed{\frac12}", r"\boxed{3}"))
    assert (right.outcome, wrong.outcome) == (Outcome.CORRECT, Outcome.WRONG)
    assert (right.reward, wrong.reward) == (1.5, 0.9)
    assert loaded.report()["reward_items"] == loaded.progress()["reward_items"] == 2


def test_the_function_sees_the_gold_answer_and_the_problem(grader):
    problem = {"id": "p1", "level": 3}
    found = grader("knows_the_problem").grade([GradingItem("x", "0.5", problem), GradingItem("x", "0.5")])
    assert [verdict.reward for verdict in found] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("completion", "reason"),
    [
        ("hang", "no answer within 0.5 s"),
        ("raise", "raised ValueError: no such unit"),
        ("exit", "raised SystemExit: 3"),
        ("crash", "exit code 9"),
        ("memory", "out of memory"),
        ("nan", "returned nan"),
        ("infinite", "returned -inf"),
        ("text", "returned str, not a number"),
        ("nothing", "returned NoneType, not a number"),
    ],
)
def test_a_function_that_fails_costs_one_reward_and_is_named(to_order, completion, reason):
    before, bad, after = to_order.rewards(items("well", completion, "well"))
    assert (before.value, after.value) == (0.5, 0.5)
    assert bad.value is None
    assert bad.fault.startswith(f"{MODULE}:to_order: ")
    assert reason in bad.fault


def test_a_program_that_hangs_ends_with_the_child_that_started_it(to_order):
    child = to_order.pid
    assert to_order.rewards(items("hang in a program"))[0].value is None
    time.sleep(0.1)
    assert running_in_group(child) == []


def test_what_the_function_prints_breaks_nothing(to_order, capfd):
    assert to_order.rewards(items("print", "well"))[0].value == 0.5
    assert "noise on standard output" in capfd.readouterr().err


def test_the_function_may_write_files_where_the_grader_may_not(grader, tmp_path):
    verdict = grader("writes_a_file").grade(items(str(tmp_path / "made")))[0]
    assert (verdict.reward, verdict.reward_fault) == (1.0, None)
    assert (tmp_path / "made").read_text() == "x"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_such_module:score", "No module named 'no_such_module'"),
        (f"{MODULE}:no_such_function", "no attribute 'no_such_function'"),
        (f"{MODULE}:not_a_function", "not_a_function is of type int, not a function"),
    ],
)
def test_a_function_that_is_not_there_is_refused_at_the_start_with_what_to_do(name, reason):
    with pytest.raises(GraderBroken) as refused:
        Grader(None, name).load()
    text = str(refused.value)
    assert name in text
    assert reason in text
    assert "working_dir" in text
    assert "PYTHONPATH" in text


def test_a_module_that_fails_to_import_is_refused_with_its_error(tmp_path, monkeypatch):
    (tmp_path / "unfinished.py").write_text("raise RuntimeError('half done')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(GraderBroken, match="RuntimeError: half done"):
        RewardFunction("unfinished:score")


def test_a_module_beside_the_run_is_found_and_a_library_with_much_address_space_fits(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "import mmap\nroom = mmap.mmap(-1, 3 << 30)\ndef score(completion, gold, problem):\n    return 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    function = RewardFunction("mine:score", GradingLimits(memory_mb=256))
    assert [given.value for given in function.rewards(items("x"))] == [1.0]
    function.close()
