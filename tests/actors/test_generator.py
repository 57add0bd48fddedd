"""The generator as a real Ray actor: pinned, reporting, serving many calls at once, answering while it works."""

import copy
import os
from pathlib import Path
from typing import Any

import pytest

from actors.engine.build import EngineSettings
from actors.engine.requests import GenerationRequest, SamplingParams
from actors.generator import GeneratorReport, GeneratorSpec, generator_actor
from actors.models import ModelError, ModelSpec
from actors.resources import PinningError, Placement, actor_options, shared_gpus
from tests.actors.engine.cases import GREEDY, assert_same, prompts, reference
from tests.actors.engine.tiny import save_checkpoint, tiny_model

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("local_ray")]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_checkpoint(tmp_path_factory.mktemp("tiny-llama"))


def start(checkpoint: Path, num_gpus: float, num_cpus: int = 1, **options: Any) -> Any:
    model = ModelSpec(str(checkpoint), device="cpu", dtype="float32")
    spec = GeneratorSpec(model, EngineSettings(batch_size=64), num_cpus, num_gpus)
    return generator_actor(calls=8).options(**actor_options(num_cpus, num_gpus) | options).remote(spec)


@pytest.fixture
def actors() -> Any:
    import ray

    made: list[Any] = []
    yield made
    for actor in made:
        ray.kill(actor)


def reports(actors: list[Any]) -> list[GeneratorReport]:
    import ray

    return ray.get([actor.load.remote() for actor in actors], timeout=120)


def test_each_actor_has_a_gpu_to_itself_and_one_too_many_waits(checkpoint: Path, actors: list[Any]) -> None:
    import ray

    actors += [start(checkpoint, 1) for _ in range(4)]
    found = reports(actors)
    assert sorted(report.placement.gpu_ids for report in found) == [("0",), ("1",), ("2",), ("3",)]
    assert shared_gpus([report.placement for report in found], 1) == []
    fifth = start(checkpoint, 1, num_cpus=0)
    actors.append(fifth)
    ready, _ = ray.wait([fifth.load.remote()], timeout=2)
    assert ready == []


def test_two_halves_share_a_gpu(checkpoint: Path, actors: list[Any]) -> None:
    actors += [start(checkpoint, 0.5) for _ in range(4)]
    places = [report.placement for report in reports(actors)]
    assert len({place.gpu_ids for place in places}) == 2
    assert shared_gpus(places, 0.5) == []
    assert len(shared_gpus(places, 1)) == 2


def test_an_actor_without_gpus_sees_none_and_uses_the_cores_it_has(checkpoint: Path, actors: list[Any]) -> None:
    actors.append(start(checkpoint, 0, num_cpus=2))
    (report,) = reports(actors)
    assert report.placement.gpu_ids == ()
    assert (report.threads, report.device, report.dtype, report.context_length) == (2, "cpu", "float32", 512)
    assert report.engine.startswith("continuous engine, ")
    assert report.engine in str(report)
    assert report.placement.pid != os.getpid()
    assert report.memory_total > report.memory_free > 0


def test_an_actor_that_was_not_given_its_gpu_says_so(checkpoint: Path, actors: list[Any]) -> None:
    """An environment of somebody else hides the GPU that Ray assigned."""
    import ray

    actors.append(start(checkpoint, 1, runtime_env={"env_vars": {"CUDA_VISIBLE_DEVICES": ""}}))
    with pytest.raises(PinningError, match="leave it to Ray"):
        ray.get(actors[0].load.remote(), timeout=120)


def test_a_model_that_does_not_load_gives_its_own_error(tmp_path: Path, actors: list[Any]) -> None:
    import ray

    actors.append(start(tmp_path, 0))
    with pytest.raises(ModelError, match="no complete model"):
        ray.get(actors[0].load.remote(), timeout=120)


def test_calls_at_the_same_time_share_batches_and_progress_is_answered_meanwhile(
    checkpoint: Path, actors: list[Any]
) -> None:
    import ray

    actors.append(start(checkpoint, 0))
    reports(actors)
    requests = [GenerationRequest(f"p{n}", 0, (5, 6, 7 + n)) for n in range(64)]
    sampling = SamplingParams(temperature=1.0, max_new_tokens=400)
    pieces = [requests[first : first + 8] for first in range(0, 64, 8)]
    work = [actors[0].generate.remote(piece, sampling) for piece in pieces]
    seen = []
    while not ray.wait([work[-1]], timeout=0)[0]:
        seen.append(ray.get(actors[0].progress.remote(), timeout=30)["tokens_sampled"])
    done = ray.get(work)
    for piece, completions in zip(pieces, done, strict=True):
        assert [made.problem_id for made in completions] == [request.problem_id for request in piece]
    assert len(set(seen)) > 3
    assert seen == sorted(seen)
    told = ray.get(actors[0].progress.remote())
    assert told["tokens_sampled"] == sum(len(made.token_ids) for completions in done for made in completions)
    assert told["tokens_sampled"] > 10 * told["steps"]  # one call alone has eight rows, and fewer as they end


def test_gpus_of_the_same_number_on_two_nodes_are_two_gpus() -> None:
    places = [Placement(node, f"10.0.0.{node}", 1, ("0",)) for node in "12"]
    assert shared_gpus(places, 1) == []


def test_new_weights_reach_an_actor_through_the_object_store_and_mark_what_comes_of_them(
    checkpoint: Path, actors: list[Any]
) -> None:
    import ray
    import torch

    from actors.weights import pack_weights

    changed = copy.deepcopy(tiny_model("llama"))
    with torch.no_grad():
        for parameter in changed.parameters():
            parameter.mul_(1.2)
    actors.append(start(checkpoint, 0))
    reports(actors)
    requests = prompts([5, 9])
    weights = ray.put(pack_weights(changed.named_parameters(), version=4))
    assert ray.get(actors[0].update_weights.remote(weights)) == 4
    got = ray.get(actors[0].generate.remote(requests, GREEDY))
    assert_same(got, reference(changed, requests, GREEDY))
    assert {completion.policy_version for completion in got} == {4}
    assert ray.get(actors[0].progress.remote())["policy_version"] == 4
    broken = pack_weights([("no.such", torch.ones(1))], version=5)
    with pytest.raises(ValueError, match=r"no weights named no\.such"):
        ray.get(actors[0].update_weights.remote(broken))
    assert ray.get(actors[0].progress.remote())["policy_version"] == 4
