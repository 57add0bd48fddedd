"""One way to reach Ray: a private one on this machine, the job's own, or a cluster by address."""

import contextlib
import logging
import math
import os
import socket
from collections.abc import Iterator

import ray

from actors.host import host_memory
from pipelines.config.schema import ClusterConfig
from pipelines.dispatch.reaper import Reaper
from pipelines.dispatch.signals import Preempted, StopFlag
from pipelines.dispatch.work import FatalError

_REACH_S = 10.0
_STORE_BYTES = 200 * 1024**2
"""Room for requests and completions on their way."""


def cluster_address(cluster: ClusterConfig) -> str:
    """`local`, `auto` inside a submitted job, or an address."""
    if cluster.address != "auto":
        return cluster.address
    return "auto" if os.environ.get("RAY_ADDRESS") or os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR") else "local"


def offered_cpus(cluster: ClusterConfig) -> int:
    """Cores that a private Ray offers: those that this process may run on, unless the configuration says less."""
    return cluster.local_cpus or len(os.sched_getaffinity(0))


@contextlib.contextmanager
def connected(cluster: ClusterConfig, idle_cpus: float, stop: StopFlag, *, weights_bytes: int = 0) -> Iterator[str]:
    """Ray for the length of the block; yields a description of what was joined.

    Inside the block a signal sets `stop`; until then it raises Preempted.

    A private Ray never joins a cluster that happens to run on the machine. It offers `idle_cpus` on top of the machine's
    cores, for actors that sleep while the generators work: those should have every core. Its object store has room for
    two versions of a model of `weights_bytes`.
    Raises FatalError with what to do when Ray cannot be reached.
    """
    address = cluster_address(cluster)
    reaper = Reaper() if address == "local" else None
    try:
        try:
            with stop.remembering():
                if reaper is not None:
                    with reaper.marked():
                        _start_private(cluster, idle_cpus, weights_bytes)
                else:
                    _check_address(os.environ.get("RAY_ADDRESS", address) if address == "auto" else address)
                    ray.init(address=address, logging_level=logging.ERROR)
                stop.install(immediate=False)
        except SystemExit as exit:  # of the handler that Ray itself puts in place
            raise Preempted from exit
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise FatalError(_advice(address, error)) from error
        try:
            kind = "private Ray" if address == "local" else "Ray cluster"
            yield f"{kind} at {ray.get_runtime_context().gcs_address}"
        finally:
            ray.shutdown()
    finally:
        if reaper is not None:
            reaper.release()


def _start_private(cluster: ClusterConfig, idle_cpus: float, weights_bytes: int) -> None:
    # Ray's default for workers is 15, at which any other program on the machine starves a CPU generator.
    os.environ.setdefault("RAY_worker_niceness", "0")
    ray.init(
        address="local",
        num_cpus=offered_cpus(cluster) + math.ceil(idle_cpus),
        num_gpus=cluster.local_gpus,
        object_store_memory=_object_store_bytes(cluster, weights_bytes),
        include_dashboard=False,
        logging_level=logging.ERROR,
        _temp_dir=cluster.temp_dir,
    )


def _object_store_bytes(cluster: ClusterConfig, weights_bytes: int) -> int:
    if cluster.object_store_mb != "auto":
        return cluster.object_store_mb * 1024**2
    _, total = host_memory()
    return min(_STORE_BYTES + 2 * weights_bytes, max(_STORE_BYTES, total // 3))


def _check_address(address: str) -> None:
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        check_reachable(host, int(port))


def check_reachable(host: str, port: int) -> None:
    """Raise ConnectionError where nothing listens: Ray itself would go on trying for minutes."""
    try:
        socket.create_connection((host, port), timeout=_REACH_S).close()
    except OSError as error:
        raise ConnectionError(f"nothing answers at {host}:{port} ({error})") from error


def _advice(address: str, error: Exception) -> str:
    text = " ".join(str(error).split())[:400]
    lowered = text.lower()
    if isinstance(error, OSError) and "/.ray" in text:
        hint = "Ray keeps a token in ~/.ray; where HOME cannot be written, `export RAY_AUTH_MODE=disabled`."
    elif "auth" in lowered or "token" in lowered or "401" in lowered:
        hint = (
            "The cluster asks for a token: `export RAY_AUTH_MODE=token` where ~/.ray/auth_token is that of the cluster."
        )
    elif "version" in lowered:
        hint = (
            "Use the cluster's Ray and Python versions here; for a Python patch level alone, "
            "`export RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL=minor`."
        )
    elif isinstance(error, ConnectionError):
        hint = (
            "Check the address (`ray status` on the head node). If the cluster uses tokens, `export RAY_AUTH_MODE=token`. "
            "`cluster.address=local` starts a private Ray instead."
        )
    else:
        hint = "`cluster.address=local` starts a private Ray; `cluster.temp_dir` moves its files."
    return f"cannot use Ray ({address}): {text}. {hint}"
