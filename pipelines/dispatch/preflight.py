"""What the run needs against what the cluster has, before anything starts."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from pipelines.config.schema import GeneratorsConfig, GradingConfig
from pipelines.config.training import LearnerConfig

_TINY = 1e-6
"""Ray counts resources in steps of 1e-4; sums of shares need this much slack."""


@dataclass(frozen=True, slots=True)
class Node:
    """A living node: what it has, and what of that is free."""

    name: str
    cpus: float
    gpus: float
    free_cpus: float
    free_gpus: float
    id: str = ""
    draining: bool = False
    """It is being emptied and takes no new actors."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How many actors of which size."""

    generators: int
    gpus_per_generator: float
    cpus_per_generator: int
    graders: int
    cpus_per_grader: float
    learner_cpus: int = 0
    """0: there is no learner."""
    learner_gpus: float = 0.0

    def __str__(self) -> str:
        learner = f", a learner with {_size(self.learner_cpus, self.learner_gpus)}" if self.learner_cpus else ""
        return (
            f"{self.generators} generator(s) with {_size(self.cpus_per_generator, self.gpus_per_generator)} each, "
            f"{self.graders} grader(s) with {self.cpus_per_grader:g} CPU each{learner}"
        )

    @property
    def bundles(self) -> list[dict[str, float]]:
        """The resources of each actor, in Ray's words."""
        learner = [_bundle(self.learner_cpus, self.learner_gpus)] if self.learner_cpus else []
        generators = [_bundle(self.cpus_per_generator, self.gpus_per_generator)] * self.generators
        return learner + generators + [{"CPU": self.cpus_per_grader}] * self.graders


class Shortfall(Exception):
    """The cluster cannot hold the plan; the text is a table of what is missing."""

    def __init__(self, table: str, plan: Plan) -> None:
        super().__init__(table)
        self.plan = plan


def plan_fleet(
    generators: GeneratorsConfig,
    grading: GradingConfig,
    device: str,
    nodes: Sequence[Node],
    learner: LearnerConfig | None = None,
    *,
    generating: bool = True,
) -> Plan:
    """Fill in every `auto` from what is free, and place all actors node by node; a run that generates nothing has no
    generators and no graders.

    An actor must fit on one node, so totals alone prove nothing. Raises Shortfall when something does not fit.
    """
    free = [[node.free_cpus, node.free_gpus] for node in nodes if not node.draining]
    graders = grading.num_workers if generating else 0
    graders_placed = sum(_place(free, grading.cpus_per_worker, 0.0) for _ in range(graders))

    has_gpus = device != "cpu" and any(node.gpus >= 1 for node in nodes)
    learner_cpus, learner_gpus = _learner_size(learner, free, has_gpus) if learner else (0, 0.0)
    learner_placed = not learner or _place(free, learner_cpus, learner_gpus)
    gpus = float(has_gpus) if generators.gpus_per_actor == "auto" else generators.gpus_per_actor
    at_least = 1 if generators.cpus_per_actor == "auto" else generators.cpus_per_actor
    room_for = [_fits(room, at_least, gpus) for room in free]
    every = sum(room_for) if gpus else sum(map(bool, room_for))
    wanted = max(1, every) if generators.num_actors == "auto" else generators.num_actors
    wanted = wanted if generating else 0
    cpus = _widest(free, wanted) if generators.cpus_per_actor == "auto" and not gpus else at_least
    placed = sum(_place(free, cpus, gpus) for _ in range(wanted))
    plan = Plan(wanted, gpus, cpus, graders, grading.cpus_per_worker, learner_cpus, learner_gpus)
    if placed < wanted or graders_placed < graders or not learner_placed:
        raise Shortfall(_table(plan, placed, graders_placed, learner_placed, nodes), plan)
    return plan


def room_for_more(plan: Plan, nodes: Sequence[Node], used: Collection[str]) -> int:
    """How many more generators of the plan's size fit: as many as there are free GPUs for, or on CPUs one for each node
    that is not among `used`, as when the plan was made."""
    sizes = plan.cpus_per_generator, plan.gpus_per_generator
    fits = {node.id: _fits([node.free_cpus, node.free_gpus], *sizes) for node in nodes}
    if plan.gpus_per_generator:
        return sum(fits.values())
    return sum(bool(count) for name, count in fits.items() if name not in used)


def wait_for_plan(
    make_plan: Callable[[], Plan],
    patience_s: float,
    report: Callable[[str], None],
    request: Callable[[list[dict[str, float]]], None],
    stop_requested: Callable[[], bool],
    *,
    interval_s: float = 10.0,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Plan:
    """`make_plan()`, tried again until it fits or `patience_s` is over (0: once, -1: for ever).

    While it waits, `request` tells the autoscaler what for: without demand, no node would come.
    Raises Shortfall of the last try.
    """
    start, told = clock(), -interval_s
    requested = False
    try:
        while True:
            try:
                return make_plan()
            except Shortfall as missing:
                waited = clock() - start
                if stop_requested() or (patience_s >= 0 and waited >= patience_s):
                    raise
                if not requested:
                    request(missing.plan.bundles)
                    requested = True
                if waited - told >= interval_s:
                    report(f"waiting for nodes ({waited:.0f} s so far)\n{missing}")
                    told = waited
                sleep(0.5)
    finally:
        if requested:
            request([])


def _size(cpus: float, gpus: float) -> str:
    return f"{gpus:g} GPU and {cpus:g} CPU" if gpus else f"{cpus:g} CPU"


def _bundle(cpus: float, gpus: float) -> dict[str, float]:
    return {"CPU": float(cpus), "GPU": gpus} if gpus else {"CPU": float(cpus)}


def _learner_size(learner: LearnerConfig, free: list[list[float]], has_gpus: bool) -> tuple[int, float]:
    """CPUs and GPUs of the learner: beside a GPU one core feeds it, without it shares a node's cores with generators."""
    gpus = float(has_gpus) if learner.gpus == "auto" else learner.gpus
    if learner.cpus != "auto":
        return learner.cpus, gpus
    return (1 if gpus else max(1, int(max((room[0] for room in free), default=1)) // 2)), gpus


def _fits(room: Sequence[float], cpus: float, gpus: float) -> int:
    """How many actors of this size fit into a node's free CPUs and GPUs."""
    by_cpu = int((room[0] + _TINY) / cpus)
    return min(by_cpu, int(room[1] + _TINY) * round(1 / gpus)) if gpus else by_cpu


def _place(free: list[list[float]], cpus: float, gpus: float) -> bool:
    """Take room for one actor on the node with most left; False when no node has it."""
    for room in sorted(free, key=lambda room: (-room[1], -room[0]) if gpus else (room[1], -room[0])):
        if room[0] + _TINY >= cpus and room[1] + _TINY >= gpus:
            room[0] -= cpus
            room[1] -= gpus
            return True
    return False


def _widest(free: list[list[float]], wanted: int) -> int:
    """The most CPUs that each of `wanted` actors can have, at least 1."""
    widest = int(max((room[0] for room in free), default=1))
    for cpus in range(widest, 1, -1):
        if sum(_fits(room, cpus, 0) for room in free) >= wanted:
            return cpus
    return 1


def _table(plan: Plan, placed: int, graders_placed: int, learner_placed: bool, nodes: Sequence[Node]) -> str:
    need = {kind: sum(bundle.get(kind, 0.0) for bundle in plan.bundles) for kind in ("CPU", "GPU")}
    there = {"CPU": sum(node.cpus for node in nodes), "GPU": sum(node.gpus for node in nodes)}
    free = {"CPU": sum(node.free_cpus for node in nodes), "GPU": sum(node.free_gpus for node in nodes)}
    lines = [f"  {'':6}{'needed':>8}{'free':>8}{'cluster':>9}{'missing':>9}"]
    for kind in ("GPU", "CPU"):
        missing = max(0.0, need[kind] - free[kind])
        lines.append(f"  {kind:6}{need[kind]:>8g}{free[kind]:>8g}{there[kind]:>9g}{missing:>9g}")
    lines.append(f"  plan: {plan}")
    fit = f"  of these, {placed} generator(s) and {graders_placed} grader(s) fit"
    lines.append(fit if learner_placed else f"{fit}, the learner does not")
    lines += [
        f"  node {node.name}: {node.free_cpus:g} of {node.cpus:g} CPU and {node.free_gpus:g} of {node.gpus:g} GPU free"
        for node in nodes
    ]
    lines.append(
        "  Lower generators.num_actors, gpus_per_actor or cpus_per_actor, add nodes, or wait for them with cluster.wait_for_nodes_s."
    )
    return "\n".join(lines)
