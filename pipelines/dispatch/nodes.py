"""The cluster's living nodes, as Ray knows them."""

import ray

from pipelines.dispatch.preflight import Node


def read_nodes() -> list[Node]:
    """Every living node with its total and its free CPUs and GPUs."""
    # Ray has no public calls for what is free on one node (ray.available_resources() is the sum over all), nor for draining.
    free = ray._private.state.available_resources_per_node()
    draining = ray._private.state.state.get_draining_nodes()
    nodes = []
    for node in ray.nodes():
        if node["Alive"]:
            total, left = node["Resources"], free.get(node["NodeID"], {})
            nodes.append(
                Node(
                    name=node["NodeManagerAddress"],
                    cpus=total.get("CPU", 0.0),
                    gpus=total.get("GPU", 0.0),
                    free_cpus=left.get("CPU", 0.0),
                    free_gpus=left.get("GPU", 0.0),
                    id=node["NodeID"],
                    draining=node["NodeID"] in draining,
                )
            )
    return nodes


def request_nodes(bundles: list[dict[str, float]]) -> None:
    """Tell the autoscaler, where there is one, what the run waits for; an empty list takes it back."""
    from ray.autoscaler.sdk import request_resources

    request_resources(bundles=bundles)
