"""A grading process: verdicts from a killable child."""

from collections.abc import Sequence
from types import TracebackType

from grading.extract import MAX_CHARACTERS
from grading.limits import GradingItem, GradingLimits
from grading.supervisor import Ask, Counters, GraderBroken, Program, Reply, Supervisor
from grading.verdict import Outcome, Verdict

SELF_TEST = (  # completion, gold, expected: the last two only pass if the symbolic comparison is reached
    (r"so \boxed{\frac{1}{2}}", "0.5", Outcome.CORRECT),
    (r"so \boxed{(x+1)^2}", "x^2 + 2x + 1", Outcome.CORRECT),
    (r"so \boxed{(x+1)^2}", "x^2 + 1", Outcome.WRONG),
)


def verdict(reply: Reply) -> Verdict:
    """The verdict in a child's reply, or the fault of the grader that it reports."""
    if "failure" in reply:
        return Verdict(Outcome.TIMEOUT if reply["failure"] == "timeout" else Outcome.ERROR, reply["reason"])
    return Verdict(Outcome(reply["outcome"]), reply["reason"], reply["answer"], reply["extraction"])


def grades_known_pairs(ask: Ask) -> None:
    """Every child has to grade known pairs first: a broken one would score all completions alike.

    Raises `GraderBroken` for a wrong verdict.
    """
    for completion, gold, expected in SELF_TEST:
        reply = ask({"completion": completion, "gold": gold, "lenient": False})
        if reply.get("outcome") != expected:
            found = reply.get("outcome") or reply.get("fault")
            raise GraderBroken(
                f"the grader fails its start-up test: {completion!r} against {gold!r} gave {found}, not {expected}; "
                "check the installed sympy version"
            )


class GradingProcess:
    """Grades batches in a child process; `supervisor` holds it to its deadline and replaces it.

    Usable from any thread. An item that ends its child twice gets the verdict `error`, one that runs into the deadline
    gets `timeout`.
    """

    def __init__(self, limits: GradingLimits | None = None, *, program: str = "grading.child") -> None:
        """Starts the child and tests it. `program` is the module that the child runs.

        Raises `GraderBroken` if it does not start or fails the test.
        """
        self.supervisor = Supervisor(Program(program), limits or GradingLimits(), grades_known_pairs)

    def grade_batch(self, items: Sequence[GradingItem]) -> list[Verdict]:
        """Exactly one verdict an item, in order. Raises `GraderBroken` if a replacement child does not work and
        `ValueError` after `close()`."""
        lenient = self.limits.lenient
        requests = [
            {"completion": item.completion[-MAX_CHARACTERS:], "gold": item.gold, "lenient": lenient} for item in items
        ]
        return [verdict(reply) for reply in self.supervisor.replies(requests)]

    def equivalence_classes(self, answers: Sequence[str | None]) -> list[tuple[int, ...]] | None:
        """`vote.equivalence_classes` in the child, with `deadline_s` for all of them together; None where that times out or
        fails. Raises as `grade_batch`."""
        request = {"answers": [answer and answer[:MAX_CHARACTERS] for answer in answers]}
        (reply,) = self.supervisor.replies([request])
        return None if "failure" in reply else [tuple(members) for members in reply["classes"]]

    @property
    def limits(self) -> GradingLimits:
        return self.supervisor.limits

    @property
    def counters(self) -> Counters:
        return self.supervisor.counters

    @property
    def pid(self) -> int | None:
        """The child's process id; None between a child's end and the next item."""
        return self.supervisor.pid

    @property
    def rss_kb(self) -> int:
        """Memory that the child used after its last item, in KiB."""
        return self.supervisor.rss_kb

    def close(self) -> None:
        """Ends the child. Further calls raise `ValueError`; closing twice does nothing."""
        self.supervisor.close()

    def __enter__(self) -> "GradingProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
