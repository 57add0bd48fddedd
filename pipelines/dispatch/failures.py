"""Which of the failure classes an exception belongs to."""

import ray.exceptions as rx

from actors.engine.service import EngineBroken
from actors.learner import LearnerBroken
from actors.models import ModelError
from grading import GraderBroken
from pipelines.dispatch.contract import Failure

_FATAL: tuple[type[BaseException], ...] = (
    ModelError,
    GraderBroken,
    LearnerBroken,
    rx.OutOfDiskError,
    rx.ObjectStoreFullError,
    rx.ActorUnschedulableError,
    rx.TaskUnschedulableError,
    rx.RuntimeEnvSetupError,
)
_INFRA: tuple[type[BaseException], ...] = (
    rx.RayActorError,
    rx.WorkerCrashedError,
    rx.NodeDiedError,
    rx.LocalRayletDiedError,
    rx.RaySystemError,
    rx.ObjectLostError,
    rx.OutOfMemoryError,
    rx.GetTimeoutError,
    rx.TaskCancelledError,
)
_BROKEN_WORKER: tuple[type[BaseException], ...] = (EngineBroken,)
"""Raised inside a call by a worker that lives and can do no more."""


def classify(error: BaseException) -> Failure:
    """FATAL and INFRA by the lists above; whatever is unknown is DATA, the loud class with the small budget."""
    for cause in (error, getattr(error, "cause", None)):
        if isinstance(cause, _FATAL):
            return Failure.FATAL
        if isinstance(cause, _BROKEN_WORKER):
            return Failure.INFRA
    if isinstance(error, rx.RayTaskError) and not isinstance(error, rx.RayActorError):
        return Failure.DATA
    return Failure.INFRA if isinstance(error, _INFRA) else Failure.DATA


def describe(error: BaseException) -> str:
    """The failure in one line, without the worker's traceback."""
    cause = getattr(error, "cause", None)
    if isinstance(error, rx.RayTaskError) and isinstance(cause, BaseException):
        return _one_line(cause) if isinstance(cause, _FATAL) else f"{type(cause).__name__}: {_one_line(cause)}"
    if isinstance(error, rx.ActorDiedError):
        return _death(str(error))
    return f"{type(error).__name__}: {_one_line(error)}"


def _death(text: str) -> str:
    """Where the actor's process was and how it ended, out of Ray's page of text."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    facts = dict(line.split(": ", 1) for line in lines if line.startswith(("pid: ", "ip: ")))
    where = f"process {facts['pid']} on {facts['ip']}: " if len(facts) == 2 else ""
    cause = lines[-1].split(" Some common causes")[0] if lines else "no reason given"
    hint = " It was killed, most often for want of memory (`dmesg` tells), or crashed in native code."
    return f"{where}{cause}{hint if 'SYSTEM_ERROR' in cause else ''}"


def _one_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3])[:500] or type(error).__name__
