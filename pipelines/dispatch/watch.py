"""The cluster's nodes while a run goes on: some are lost, some are emptied, some join."""

import time
from collections.abc import Callable, Iterator, Sequence

from pipelines.config.schema import JobConfig
from pipelines.dispatch.connect import cluster_address
from pipelines.dispatch.places import Place, place_of
from pipelines.dispatch.pool import WorkPool
from pipelines.dispatch.preflight import Node, Plan, room_for_more
from pipelines.dispatch.work import Incident

LOOK_INTERVAL_S = 5.0


def is_elastic(config: JobConfig) -> bool:
    """Whether generators may be added: nobody said how many there are to be, and there are nodes that may join."""
    anyhow = config.generators.num_actors == "auto" and not config.cluster.reserve
    return anyhow and cluster_address(config.cluster) != "local"


class NodeWatch:
    """Looks at the nodes now and then: generators and graders leave those that are being emptied, and where `elastic` says
    so, generators are added as nodes have room for more. None is while somebody waits for a place: a worker of these
    pools, or who else there is while not `settled()`.
    """

    def __init__(
        self,
        read: Callable[[], Sequence[Node]],
        plan: Plan,
        generators: WorkPool,
        graders: WorkPool,
        *,
        elastic: bool,
        settled: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._plan = plan
        self._generators = generators
        self._pools = (generators, graders)
        self._elastic = elastic
        self._settled = settled
        self._clock = clock
        self._next = clock() + LOOK_INTERVAL_S
        self._known = {node.id: node for node in read()}

    def look(self) -> Iterator[Incident]:
        """What changed since the last look; nothing before it is time for one."""
        if self._clock() < self._next:
            return
        self._next = self._clock() + LOOK_INTERVAL_S
        nodes = {node.id: node for node in self._read()}
        before, self._known = self._known, nodes
        for node in before.values():
            if node.id not in nodes:
                yield _incident("node lost", node, "Ray no longer counts it among the living")
        for node in nodes.values():
            if node.id not in before:
                yield _incident("node joined", node, f"has {node.cpus:g} CPU and {node.gpus:g} GPU")
            if node.draining and not (node.id in before and before[node.id].draining):
                yield _incident("node draining", node, "is being emptied; its workers finish what they hold and move")
        emptied = {node.id for node in nodes.values() if node.draining}
        for pool in self._pools if emptied else ():
            pool.leave([name for name, place in _places(pool) if place.id in emptied])
        if self._elastic:
            yield from self._grow(list(nodes.values()))

    def _grow(self, nodes: Sequence[Node]) -> Iterator[Incident]:
        waiting = any(pool.counts()["starting"] or pool.counts()["waiting"] for pool in self._pools)
        if waiting or not self._settled():
            return
        used = {place.id for _, place in _places(self._generators)}
        more = room_for_more(self._plan, [node for node in nodes if not node.draining], used)
        if more:
            self._generators.grow(more)
            yield Incident("generator", "more workers", f"{more} generator(s)", "nodes have room for them")


def _places(pool: WorkPool) -> list[tuple[str, Place]]:
    return [(name, place) for name, report in pool.reports.items() if (place := place_of(report))]


def _incident(kind: str, node: Node, text: str) -> Incident:
    name = str(Place(node.id, node.name))
    return Incident("cluster", kind, name, text, {"node": name})
