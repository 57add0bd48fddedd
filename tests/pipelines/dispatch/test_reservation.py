"""The plan against a real Ray with four GPUs that are only numbers, and their room taken at once."""

from typing import Any

import pytest

from actors.resources import actor_options
from pipelines.config.schema import GeneratorsConfig, GradingConfig
from pipelines.dispatch.echo import EchoActor
from pipelines.dispatch.nodes import read_nodes
from pipelines.dispatch.preflight import Plan, Shortfall, plan_fleet
from pipelines.dispatch.reservation import reserved
from pipelines.dispatch.work import FatalError

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("local_ray")]

PLAN = Plan(3, 1.0, 1, 1, 1.0, 1, 1.0)
"""Three generators and a learner, each with a GPU, and a grader without."""


def start(**place: Any) -> Any:
    return EchoActor.options(**actor_options(1, 1), **place).remote(1)


def is_ready(actor: Any, seconds: float) -> bool:
    import ray

    return bool(ray.wait([actor.load.remote()], timeout=seconds)[0])


def test_a_fifth_actor_on_four_gpus_is_refused_with_the_table_of_needs() -> None:
    with pytest.raises(Shortfall) as caught:
        plan_fleet(GeneratorsConfig(num_actors=5, gpus_per_actor=1), GradingConfig(), "auto", read_nodes())
    rows = [line.split() for line in str(caught.value).splitlines()]
    assert ["GPU", "5", "4", "4", "1"] in rows
    assert "4 of 4 GPU free" in str(caught.value)


def test_what_is_reserved_is_for_the_run_alone_until_it_ends() -> None:
    with reserved(PLAN, wanted=True) as place:
        mine = [start(**place) for _ in range(4)]
        assert all(is_ready(actor, 60) for actor in mine)
        with (
            pytest.raises(FatalError, match="could not reserve room for 3 generator"),
            reserved(PLAN, wanted=True, patience_s=1.0),
        ):
            pass
    assert is_ready(start(), 60)


def test_nothing_is_reserved_unless_it_is_wanted() -> None:
    with reserved(PLAN, wanted=False) as place:
        assert place == {}
