"""Training that goes on when its learner dies."""

from collections.abc import Callable

from pipelines.dispatch.work import FatalError
from pipelines.training.course import Course
from pipelines.training.crew import Crew, LearnerLost, Stopped


def resumable(crew: Crew, course: Course, run: Callable[[int], None]) -> None:
    """`run(first step)` until it ends, or a stop is asked for. A lost learner is replaced by a new one, which starts from
    the newest checkpoint; what was generated since is not generated again.

    Raises FatalError when one is lost again and again at the same checkpoint.
    """
    losses = 0
    last = -1
    while True:
        try:
            report = crew.start()
            losses = losses + 1 if report.step == last else 0
            last = report.step
            course.begin(report)
            return run(report.step)
        except Stopped:
            return None
        except LearnerLost as lost:
            if losses >= course.max_losses:
                raise FatalError(
                    f"the learner was lost {losses + 1} times without coming to another checkpoint; last: {lost}. "
                    "What is finished is recorded; the same command resumes the run."
                ) from lost
            course.console.warn("a new learner starts from the newest checkpoint")
            crew.restart_learner()
