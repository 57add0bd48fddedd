"""What Ray assigned to an actor: node, GPU, CPUs; and whether two actors share by accident."""

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import ray


class PinningError(RuntimeError):
    """An actor did not get the devices that it was promised."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an actor runs. `gpu_ids` are Ray's ids on that node, empty for a CPU actor."""

    node_id: str
    address: str
    pid: int
    gpu_ids: tuple[str, ...]


def actor_options(num_cpus: float, num_gpus: float) -> dict[str, Any]:
    """Ray options that pin an actor to GPUs, or to CPUs with every GPU hidden.

    Ray leaves all GPUs visible to an actor without GPUs, so they are hidden by hand; on an actor with GPUs the variable
    is Ray's alone, because a value of ours would silently win over the assignment.
    """
    options: dict[str, Any] = {"num_cpus": num_cpus, "num_gpus": num_gpus}
    if not num_gpus:
        options["runtime_env"] = {"env_vars": {"CUDA_VISIBLE_DEVICES": ""}}
    return options


def read_placement(num_gpus: float) -> Placement:
    """Ask Ray, inside an actor, what it assigned.

    Raises PinningError when an actor that asked for a GPU, or a share of one, did not get exactly one.
    """
    context = ray.get_runtime_context()
    gpu_ids = tuple(context.get_accelerator_ids().get("GPU", []))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if num_gpus and (len(gpu_ids) != 1 or visible != gpu_ids[0]):
        raise PinningError(
            f"asked Ray for {num_gpus:g} GPU and got ids {list(gpu_ids)} with CUDA_VISIBLE_DEVICES={visible!r}. "
            "Something else sets CUDA_VISIBLE_DEVICES for the actors; leave it to Ray."
        )
    return Placement(context.get_node_id(), ray.util.get_node_ip_address(), os.getpid(), gpu_ids)


def shared_gpus(placements: Iterable[Placement], num_gpus: float) -> list[str]:
    """The GPUs that hold more actors than shares of `num_gpus` allow, as `node address:GPU id`."""
    allowed = round(1 / num_gpus) if num_gpus else 0
    holders = Counter((place.node_id, place.address, gpu) for place in placements for gpu in place.gpu_ids)
    return [f"{address}:{gpu}" for (_, address, gpu), count in holders.items() if count > allowed]
