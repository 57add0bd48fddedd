"""Room for a learner and its generators taken at once, so that no other job can come between them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ray.util import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from pipelines.dispatch.preflight import Plan
from pipelines.dispatch.work import FatalError

PATIENCE_S = 60.0
"""The plan fitted a moment ago."""


@contextmanager
def reserved(plan: Plan, *, wanted: bool, patience_s: float = PATIENCE_S) -> Iterator[dict[str, Any]]:
    """Ray options for the learner and the generators of `plan`, whose room is theirs for the length of the block; none
    unless that is `wanted`.

    An actor that is replaced gets the place of the old one. Raises FatalError when another job was faster.
    """
    if not wanted:
        yield {}
        return
    bundles = plan.bundles[: len(plan.bundles) - plan.graders]
    group = placement_group(bundles, strategy="PACK")
    try:
        if not group.wait(timeout_seconds=patience_s):
            state = placement_group_table(group)["stats"]["scheduling_state"]
            raise FatalError(
                f"could not reserve room for {plan} within {patience_s:.0f} s (Ray says {state}): another job may have taken "
                "it meanwhile. `ray status` shows who holds what; cluster.wait_for_nodes_s waits for room before."
            )
        yield {"scheduling_strategy": PlacementGroupSchedulingStrategy(group)}
    finally:
        remove_placement_group(group)
