"""Nodes that are emptied, lost or join while a run goes on."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from actors.resources import Placement
from pipelines.dispatch.contract import PoolLimits
from pipelines.dispatch.loop import events
from pipelines.dispatch.places import Place, place_of
from pipelines.dispatch.pool import WorkPool
from pipelines.dispatch.preflight import Node, Plan, room_for_more
from pipelines.dispatch.watch import NodeWatch
from pipelines.dispatch.work import Event, Finished, Incident, Ref, Tick, Unit
from tests.pipelines.dispatch.script import Died, FakeWorker, ScriptTransport
from tests.pipelines.dispatch.test_pool import done_items, expected, units

A, B = Node("10.0.0.1", 4, 0, 0, 0, "aaaa"), Node("10.0.0.2", 4, 0, 0, 0, "bbbb")
PLAN = Plan(2, 0.0, 4, 1, 1.0)


@dataclass
class Report:
    placement: Placement


class PlacedTransport(ScriptTransport):
    """Workers that say where they are: `nodes` in turn, then the last of them."""

    def __init__(self, nodes: Sequence[Node], **behaviour: Any) -> None:
        super().__init__(**behaviour)
        self.nodes = list(nodes)
        self.homes: dict[str, Node] = {}

    def load(self, worker: FakeWorker) -> Ref:
        home = self.nodes.pop(0) if len(self.nodes) > 1 else self.nodes[0]
        self.homes[worker.name] = home
        report = Report(Placement(home.id, home.name, 1, ()))
        return self._promise(self.now + self.startup(worker), worker, report)


def run(
    transport: PlacedTransport, work: list[Unit], nodes_at: dict[float, list[Node]], *, elastic: bool = False
) -> tuple[WorkPool, list[Event]]:
    pool = WorkPool("generator", transport, 2, PoolLimits(), transport.clock)
    graders = WorkPool("grader", transport, 0, PoolLimits(), transport.clock)
    for unit in work:
        pool.add(unit)

    def read() -> list[Node]:
        return nodes_at[max(at for at in nodes_at if at <= transport.now)]

    watch = NodeWatch(read, PLAN, pool, graders, elastic=elastic, clock=transport.clock)
    seen: list[Event] = []
    for event in events([pool], transport.wait, lambda: False, max_backlog=10, clock=transport.clock):
        seen.append(event)
        if isinstance(event, Tick):
            seen += watch.look()
    return pool, seen


def incidents(seen: list[Event], *kinds: str) -> list[tuple[str, str]]:
    return [(event.kind, event.worker) for event in seen if isinstance(event, Incident) and event.kind in kinds]


def test_workers_leave_a_node_that_is_emptied_without_losing_what_they_hold() -> None:
    transport = PlacedTransport([A, B, A])
    work = units(60)
    _, seen = run(transport, work, {0.0: [A, B], 12.0: [A, replace(B, draining=True)]})
    assert done_items(seen) == expected(work)
    assert incidents(seen, "node draining", "left", "died") == [
        ("node draining", "10.0.0.2 (bbbb)"),
        ("left", "generator-1"),
    ]
    assert transport.homes["generator-1-2"] is A
    attempts = Counter(event.unit.attempt for event in seen if isinstance(event, Finished))
    assert attempts == {1: 60}
    late = [name for name, _ in transport.calls[-10:]]
    assert "generator-1" not in late
    assert "generator-1-2" in late


def test_generators_come_to_nodes_that_join_and_are_put_to_work() -> None:
    c = Node("10.0.0.3", 4, 0, 4, 0, "cccc")
    full = replace(c, free_cpus=0)
    transport = PlacedTransport([A, B, c])
    work = units(80)
    _, seen = run(transport, work, {0.0: [A, B], 11.0: [A, B, c], 18.0: [A, B, full]}, elastic=True)
    assert done_items(seen) == expected(work)
    assert incidents(seen, "node joined", "more workers") == [
        ("node joined", "10.0.0.3 (cccc)"),
        ("more workers", "1 generator(s)"),
    ]
    assert Counter(name for name, _ in transport.calls)["generator-2"] > 15


def test_a_number_of_actors_that_was_asked_for_stays() -> None:
    c = Node("10.0.0.3", 4, 0, 4, 0, "cccc")
    _, seen = run(PlacedTransport([A, B]), units(60), {0.0: [A, B], 11.0: [A, B, c]})
    assert incidents(seen, "node joined", "more workers") == [("node joined", "10.0.0.3 (cccc)")]


def test_no_worker_is_added_while_one_waits_for_a_place() -> None:
    """The room that there is will be that one's."""
    c = Node("10.0.0.3", 4, 0, 4, 0, "cccc")
    transport = PlacedTransport([A, B], startup=lambda worker: 1e9 if worker.name == "generator-1" else 0.0)
    _, seen = run(transport, units(40), {0.0: [A, B], 11.0: [A, B, c]}, elastic=True)
    assert incidents(seen, "more workers") == []


def test_a_lost_node_is_told_and_each_death_names_its_node() -> None:
    def behave(worker: FakeWorker, unit: Unit) -> float:
        if worker.name == "generator-1" and transport.now > 10:
            raise Died("gone")
        return 1.0

    transport = PlacedTransport([A, B, A], behave=behave)
    work = units(60)
    _, seen = run(transport, work, {0.0: [A, B], 12.0: [A]})
    assert done_items(seen) == expected(work)
    (death,) = [event for event in seen if isinstance(event, Incident) and event.kind == "died"]
    assert death.details["node"] == "10.0.0.2 (bbbb)"
    assert incidents(seen, "node lost") == [("node lost", "10.0.0.2 (bbbb)")]


def test_room_is_counted_by_free_gpus_or_by_unused_nodes() -> None:
    gpus = Plan(2, 0.5, 1, 1, 1.0)
    assert room_for_more(gpus, [Node("a", 8, 4, 8, 2, "a"), Node("b", 8, 4, 1, 4, "b")], {"a"}) == 5
    cpus = Plan(2, 0.0, 3, 1, 1.0)
    nodes = [Node("a", 8, 0, 8, 0, "a"), Node("b", 8, 0, 8, 0, "b"), Node("c", 2, 0, 2, 0, "c")]
    assert room_for_more(cpus, nodes, {"a"}) == 1


def test_generators_learners_and_graders_say_where_they_are() -> None:
    assert place_of(Report(Placement("abcdefghij", "10.0.0.1", 1, ()))) == Place("abcdefghij", "10.0.0.1")
    assert str(place_of({"node_id": "abcdefghij", "node": "10.0.0.1"})) == "10.0.0.1 (abcdefgh)"
    assert place_of({"node_id": None, "node": "x"}) is None
    assert place_of("anything") is None
