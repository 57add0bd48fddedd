"""The judgement on one answer."""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """`timeout` and `error` are faults of the grader and are never counted as a wrong answer."""

    CORRECT = "correct"
    WRONG = "wrong"
    UNPARSED = "unparsed"
    TIMEOUT = "timeout"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome with the rule that decided it.

    `reason` names the deciding rule in a few words (`same text`, `equal numbers`, `no answer found`, ...);
    `answer` is the extracted answer, None where the completion holds none;
    `extraction` names the strategy that found it (`boxed`, `answer phrase`, ...);
    `reward` is what the user's reward function gave; None where there is none, or where it failed as `reward_fault` says.
    """

    outcome: Outcome
    reason: str
    answer: str | None = None
    extraction: str | None = None
    reward: float | None = None
    reward_fault: str | None = None

    @property
    def correct(self) -> bool:
        return self.outcome is Outcome.CORRECT
