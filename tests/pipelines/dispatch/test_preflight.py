"""The plan against the nodes that are there."""

import pytest

from pipelines.config.schema import GeneratorsConfig, GradingConfig
from pipelines.dispatch.preflight import Node, Plan, Shortfall, plan_fleet, wait_for_plan


def node(
    name: str, cpus: float, gpus: float = 0, free_cpus: float | None = None, free_gpus: float | None = None
) -> Node:
    return Node(name, cpus, gpus, cpus if free_cpus is None else free_cpus, gpus if free_gpus is None else free_gpus)


def plan(
    nodes: list[Node], device: str = "auto", graders: int = 1, cpus_per_worker: float = 1.0, **generators: object
) -> Plan:
    return plan_fleet(
        GeneratorsConfig(**generators),
        GradingConfig(num_workers=graders, cpus_per_worker=cpus_per_worker),
        device,
        nodes,
    )


def test_auto_takes_every_gpu_of_the_cluster() -> None:
    found = plan([node("a", 32, 8), node("b", 32, 8)])
    assert (found.generators, found.gpus_per_generator, found.cpus_per_generator) == (16, 1.0, 1)


def test_auto_leaves_gpus_alone_that_others_use() -> None:
    assert plan([node("a", 32, 8, free_gpus=3)]).generators == 3


def test_shares_of_a_gpu_multiply_the_actors() -> None:
    assert plan([node("a", 32, 2)], gpus_per_actor=0.5).generators == 4


def test_without_gpus_one_actor_takes_all_cores_but_those_of_the_graders() -> None:
    found = plan([node("a", 8)], graders=2)
    assert (found.generators, found.gpus_per_generator, found.cpus_per_generator) == (1, 0.0, 6)


def test_cpu_cores_are_shared_evenly_among_the_actors_asked_for() -> None:
    found = plan([node("a", 9)], num_actors=4)
    assert (found.generators, found.cpus_per_generator) == (4, 2)


def test_a_cpu_device_ignores_gpus() -> None:
    assert plan([node("a", 8, 4)], device="cpu").gpus_per_generator == 0


def test_one_node_each_without_gpus() -> None:
    assert plan([node("a", 4), node("b", 4), node("c", 4)]).generators == 3


def test_too_many_gpus_are_reported_as_a_table_of_needed_free_and_missing() -> None:
    with pytest.raises(Shortfall) as caught:
        plan([node("a", 8, 2, free_gpus=1)], num_actors=4)
    rows = [line.split() for line in str(caught.value).splitlines()]
    assert ["GPU", "4", "1", "2", "3"] in rows
    assert "node a: 8 of 8 CPU and 1 of 2 GPU free" in str(caught.value)


def test_totals_that_suffice_do_not_help_an_actor_that_fits_on_no_node() -> None:
    with pytest.raises(Shortfall, match=r"1 generator.s. .* fit|0 generator.s. "):
        plan([node("a", 2), node("b", 2)], cpus_per_actor=3, num_actors=1, graders=1)


def test_gpu_nodes_without_cores_do_not_count() -> None:
    with pytest.raises(Shortfall):
        plan([node("a", 1, 8)], num_actors=8)


def test_an_empty_cluster_is_a_shortfall_not_a_crash() -> None:
    with pytest.raises(Shortfall):
        plan([])


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def wait(
    nodes_at: dict[float, list[Node]], patience: float
) -> tuple[Plan, list[str], list[list[dict[str, float]]], float]:
    time, told, requested = Time(), [], []

    def make() -> Plan:
        return plan(nodes_at[max(at for at in nodes_at if at <= time.now)], num_actors=2)

    found = wait_for_plan(
        make, patience, told.append, requested.append, lambda: False, clock=lambda: time.now, sleep=time.sleep
    )
    return found, told, requested, time.now


def test_waiting_goes_on_until_the_nodes_are_there_and_tells_so() -> None:
    found, told, requested, now = wait({0.0: [node("a", 4, 1)], 25.0: [node("a", 4, 1), node("b", 4, 1)]}, 60)
    assert found.generators == 2
    assert 25 <= now < 26
    assert len(told) == 3
    assert "waiting for nodes" in told[0]
    assert requested[0].count({"CPU": 1.0, "GPU": 1.0}) == 2
    assert requested[-1] == []


def test_waiting_ends_when_patience_is_over() -> None:
    with pytest.raises(Shortfall):
        wait({0.0: [node("a", 4, 1)]}, 5)


def test_no_patience_means_no_wait() -> None:
    with pytest.raises(Shortfall):
        wait({0.0: [node("a", 4, 1)], 0.1: [node("a", 4, 2)]}, 0)
