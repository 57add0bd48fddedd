"""The user's own reward, in a killable child."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from grading.limits import GradingItem, GradingLimits
from grading.reward import split_name
from grading.supervisor import Ask, Counters, GraderBroken, Program, Reply, Supervisor


@dataclass(frozen=True, slots=True)
class FunctionReward:
    """What the function gave for one completion: a finite `value`, or None and the `fault` that names the function."""

    value: float | None
    fault: str | None = None


class RewardFunction:
    """Calls `f(completion, gold, problem)` in a child process that is held to the same deadline as grading.

    Unlike a grading child it is trusted: it may read and write files and use the network. Its memory limit is what its
    imports map and `memory_mb` beyond. What it prints goes to the standard error of this process.
    """

    def __init__(self, name: str, limits: GradingLimits | None = None) -> None:
        """Starts the child, which imports what `name` (`module:function`) says from where this process could.

        Raises `GraderBroken` with what to do if it cannot, and `ValueError` for another form of name.
        """
        split_name(name)
        self.name = name
        program = Program("grading.reward_child", (name,), tuple(sys.path), errors="passed on")
        self._supervisor = Supervisor(program, limits or GradingLimits(), self._is_there)

    def rewards(self, items: Sequence[GradingItem]) -> list[FunctionReward]:
        """Exactly one an item, in order. A function that raises, hangs, ends its process or returns something else than
        a finite number costs that item its reward and no other.

        Raises `GraderBroken` if the function can no longer be imported, and `ValueError` after `close()`.
        """
        requests = [{"completion": item.completion, "gold": item.gold, "problem": dict(item.problem)} for item in items]
        return [self._read(reply) for reply in self._supervisor.replies(requests)]

    @property
    def counters(self) -> Counters:
        return self._supervisor.counters

    @property
    def pid(self) -> int | None:
        """The child's process id; None between a child's end and the next item."""
        return self._supervisor.pid

    def close(self) -> None:
        """Ends the child. Further calls raise `ValueError`; closing twice does nothing."""
        self._supervisor.close()

    def _read(self, reply: Reply) -> FunctionReward:
        return (
            FunctionReward(None, f"{self.name}: {reply['reason']}")
            if "failure" in reply
            else FunctionReward(reply["reward"])
        )

    def _is_there(self, ask: Ask) -> None:
        if fault := ask({"import": True}).get("fault"):
            raise GraderBroken(
                f"the reward function {self.name} cannot be used: {fault}. It must be importable on every node: put its "
                "file into the folder that the run is started in or into the job's working_dir, or name its folder in PYTHONPATH."
            )
