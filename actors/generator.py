"""A model on one device, generating completions for whoever asks."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ray

from actors.engine.build import EngineSettings, build_engine
from actors.engine.requests import Completion, GenerationRequest, SamplingParams
from actors.engine.service import EngineService
from actors.host import host_memory
from actors.models import ModelSpec
from actors.resources import Placement, read_placement

if TYPE_CHECKING:
    from actors.weights import Weights


@dataclass(frozen=True, slots=True)
class GeneratorSpec:
    """What a generator holds and what Ray promised it."""

    model: ModelSpec
    engine: EngineSettings
    num_cpus: int
    num_gpus: float


@dataclass(frozen=True, slots=True)
class GeneratorReport:
    """What a generator got. Memory in bytes; zero where the device does not tell."""

    placement: Placement
    device: str
    device_name: str
    dtype: str
    engine: str
    threads: int
    nice: int
    parameters: int
    context_length: int | None
    memory_total: int
    memory_free: int
    load_seconds: float
    revision: str | None

    def __str__(self) -> str:
        gpu = f" (GPU {', '.join(self.placement.gpu_ids)})" if self.placement.gpu_ids else ""
        return (
            f"{self.device_name}{gpu} on {self.placement.address}, process {self.placement.pid}; {self.parameters / 1e6:.0f} M "
            f"parameters in {self.dtype}, {self.engine}, {self.threads} threads, "
            f"{self.memory_free / 2**30:.1f} of {self.memory_total / 2**30:.1f} GiB free; loaded in {self.load_seconds:.1f} s"
        )


class Generator:
    """Loads a model on demand and generates with it, for several callers at once."""

    def __init__(self, spec: GeneratorSpec) -> None:
        self._spec = spec
        self._service: EngineService | None = None

    def load(self) -> GeneratorReport:
        """Load the model on the assigned device.

        Apart from the constructor, because an exception here reaches the driver as itself.
        Raises PinningError, ModelError naming why a model does not load, and ValueError where the engine cannot serve it.
        """
        import torch
        from transformers.utils import logging

        from actors.models import load_model

        logging.disable_progress_bar()  # bars of many actors only garble the driver's output
        start = time.perf_counter()
        placement = read_placement(self._spec.num_gpus)
        torch.set_num_threads(self._spec.num_cpus)
        loaded = load_model(self._spec.model)
        engine = build_engine(loaded, self._spec.engine)
        # A thread's own setting, and the service's thread is another than this one.
        self._service = EngineService(engine, prepare=lambda: torch.set_num_threads(self._spec.num_cpus))
        on_gpu = loaded.device.type == "cuda"
        free, total = torch.cuda.mem_get_info(loaded.device) if on_gpu else host_memory()
        return GeneratorReport(
            placement=placement,
            device=str(loaded.device),
            device_name=torch.cuda.get_device_name(loaded.device) if on_gpu else "CPU",
            dtype=str(loaded.dtype).removeprefix("torch."),
            engine=engine.description,
            threads=torch.get_num_threads(),
            nice=os.nice(0),
            parameters=loaded.num_parameters,
            context_length=loaded.context_length,
            memory_total=total,
            memory_free=free,
            load_seconds=time.perf_counter() - start,
            revision=loaded.revision,
        )

    @ray.method(concurrency_group="generate")
    def generate(self, requests: Sequence[GenerationRequest], sampling: SamplingParams) -> list[Completion]:
        """One completion a request, in order. Raises as `EngineService.generate` does."""
        assert self._service is not None, "load comes first"
        return self._service.generate(requests, sampling)

    @ray.method(concurrency_group="health")
    def update_weights(self, weights: "Weights") -> int:
        """Take `weights` over between two steps of what is running; returns their version.

        Raises ValueError, and keeps the weights that it has, for those that were damaged on the way or do not fit.
        """
        from actors.weights import unpack_weights

        assert self._service is not None, "load comes first"
        self._service.update_weights(unpack_weights(weights), weights.version)
        return weights.version

    @ray.method(concurrency_group="health")
    def progress(self) -> dict[str, Any]:
        """Counters that move while the engine works; answered by a thread of its own. Empty before `load`."""
        return self._service.stats() if self._service is not None else {}


def generator_actor(calls: int) -> Any:
    """The Ray actor class of a generator that serves so many `generate` calls at once. Ray fixes it with the class."""
    groups = {"generate": calls, "health": 1}
    return ray.remote(concurrency_groups=groups)(Generator)  # type: ignore[call-overload]  # stubs lack it
