"""Answers of mathematical problems: extraction, equivalence, voting, and a killable process to do it in.

Nothing here imports Ray except `grading.pool`, which is not imported by the package itself.
"""

from grading.compare import is_equivalent
from grading.extract import Extraction, extract, extract_answer
from grading.grade import grade
from grading.limits import GradingItem, GradingLimits
from grading.process import GradingProcess
from grading.reward import RewardSettings, reward
from grading.supervisor import GraderBroken
from grading.verdict import Outcome, Verdict
from grading.vote import equivalence_classes, majority_vote

__all__ = [
    "Extraction",
    "GraderBroken",
    "GradingItem",
    "GradingLimits",
    "GradingProcess",
    "Outcome",
    "RewardSettings",
    "Verdict",
    "equivalence_classes",
    "extract",
    "extract_answer",
    "grade",
    "is_equivalent",
    "majority_vote",
    "reward",
]
