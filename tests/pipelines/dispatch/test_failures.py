"""Every exception that Ray can raise has a class."""

import inspect
import pickle

import pytest
import ray.exceptions as rx

from actors.engine.service import EngineBroken
from actors.models import ModelError
from grading import GraderBroken
from pipelines.dispatch.contract import Failure
from pipelines.dispatch.failures import classify, describe

FATAL = {
    "OutOfDiskError",
    "ObjectStoreFullError",
    "ActorUnschedulableError",
    "TaskUnschedulableError",
    "RuntimeEnvSetupError",
}
DATA = {"RayTaskError", "UnserializableException"}
"""The call itself raised."""
LOST = {
    "ActorDiedError",
    "ActorUnavailableError",
    "NodeDiedError",
    "WorkerCrashedError",
    "ObjectLostError",
    "OwnerDiedError",
    "ObjectFetchTimedOutError",
    "ObjectReconstructionFailedError",
    "OutOfMemoryError",
    "GetTimeoutError",
    "RaySystemError",
    "LocalRayletDiedError",
    "TaskCancelledError",
}
CLASSES = {name: kind for name, kind in inspect.getmembers(rx, inspect.isclass) if issubclass(kind, rx.RayError)}


def bare(kind: type[BaseException]) -> BaseException:
    """An instance without its constructor, whose arguments differ from class to class."""
    return kind.__new__(kind)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_each_ray_exception_has_a_class(name: str) -> None:
    found = classify(bare(CLASSES[name]))
    if name in FATAL:
        assert found is Failure.FATAL
    elif name in LOST:
        assert found is Failure.INFRA
    elif name in DATA:
        assert found is Failure.DATA
    else:
        assert found in Failure


def test_the_lists_name_classes_that_exist() -> None:
    assert set(CLASSES) >= FATAL | LOST | {"RayTaskError"}


def test_an_unknown_exception_is_data_so_that_bugs_are_loud() -> None:
    assert classify(KeyError("x")) is Failure.DATA


def raised_in_an_actor(cause: Exception) -> Exception:
    error = rx.RayTaskError("generate", "Traceback (most recent call last): ...", cause)
    return error.as_instanceof_cause()


@pytest.mark.parametrize("cause", [ModelError("no weights"), GraderBroken("wrong sympy")])
def test_our_fatal_errors_stay_fatal_and_keep_their_text_across_processes(cause: Exception) -> None:
    error = raised_in_an_actor(pickle.loads(pickle.dumps(cause)))
    assert classify(error) is Failure.FATAL
    assert describe(error) == str(cause)


def test_an_engine_that_can_do_no_more_is_the_fault_of_its_process_and_not_of_the_work() -> None:
    error = raised_in_an_actor(pickle.loads(pickle.dumps(EngineBroken("AcceleratorError: CUDA error"))))
    assert classify(error) is Failure.INFRA
    assert describe(error) == "EngineBroken: AcceleratorError: CUDA error"


def test_an_error_of_the_work_is_described_without_its_traceback() -> None:
    error = raised_in_an_actor(ValueError("bad prompt\n  details"))
    assert classify(error) is Failure.DATA
    assert describe(error) == "ValueError: bad prompt details"
