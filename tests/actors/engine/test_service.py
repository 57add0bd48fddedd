"""One engine for many callers: each gets what it would get alone, whatever becomes of the others."""

import copy
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from actors.engine import Completion, GenerationRequest, SamplingParams
from actors.engine.padded import PaddedEngine
from actors.engine.service import EngineBroken, EngineService, ServiceClosed
from tests.actors.engine.cases import LENGTHS, SAMPLED, assert_same, engine, prompts, reference, seen_forwards
from tests.actors.engine.tiny import tiny_model, tiny_tokenizer

LONG = SamplingParams(temperature=0.9, max_new_tokens=25, seed=3)
MODEL = tiny_model("llama")

GATHER_S = 0.1
"""Long enough that what a test submits at once arrives together on the slowest machine."""

Serve = Callable[..., EngineService]


@pytest.fixture
def serve() -> Iterator[Serve]:
    made: list[EngineService] = []

    def start(engine: PaddedEngine, **options: Any) -> EngineService:
        made.append(EngineService(engine, lambda: torch.set_num_threads(1), **options))
        return made[-1]

    yield start
    for service in made:
        service.close()


class Gate:
    """Holds the engine's thread inside a forward pass."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._opened = threading.Event()

    def wait(self) -> None:
        assert self._reached.wait(30)

    def open(self) -> None:
        self._opened.set()

    def hold(self, *_: object) -> None:
        self._reached.set()
        assert self._opened.wait(30)


@contextmanager
def gate_at_pass(number: int) -> Iterator[Gate]:
    gate, passes = Gate(), iter(range(1_000_000))
    hook = MODEL.register_forward_pre_hook(lambda *_: gate.hold() if next(passes) == number else None)
    try:
        yield gate
    finally:
        gate.open()
        hook.remove()


class Faulty(PaddedEngine):
    """Raises `fault` in the steps in which a running or waiting request is named `guilty`."""

    def __init__(self, fault: Exception, guilty: str) -> None:
        super().__init__(MODEL, tiny_tokenizer(), batch_size=16)
        self.fault, self.guilty = fault, guilty
        self.raised = 0

    def step(self) -> list[tuple[int, Completion]]:
        done = super().step()
        if self.progress.decode_steps % 3 == 2 and any(row.request.problem_id == self.guilty for row in self._live):
            self.raised += 1
            raise self.fault
        return done


def cut(requests: list[GenerationRequest], size: int) -> list[list[GenerationRequest]]:
    return [requests[first : first + size] for first in range(0, len(requests), size)]


def test_callers_at_the_same_time_get_what_each_would_get_alone_and_in_order(serve: Serve) -> None:
    service = serve(engine(MODEL, batch_size=6))
    pieces = cut(prompts(LENGTHS * 2), 4)
    with ThreadPoolExecutor(len(pieces)) as callers:
        got = list(callers.map(lambda piece: service.generate(piece, SAMPLED), pieces))
    for made, piece in zip(got, pieces, strict=True):
        assert_same(made, reference(MODEL, piece, SAMPLED))


def test_work_that_arrives_in_pieces_forms_one_batch(serve: Serve) -> None:
    service = serve(engine(MODEL, batch_size=64), gather_s=2 * GATHER_S)
    futures = []
    with seen_forwards(MODEL) as calls:
        for piece in cut(prompts([5] * 64), 4):
            futures.append(service.submit(piece, SAMPLED))
            time.sleep(0.01)
        assert sum(len(future.result()) for future in futures) == 64
    assert calls[0][0].shape == (64, 5)
    assert all(ids.shape[1] == 1 for ids, _ in calls[1:])


def test_work_that_arrives_while_the_engine_runs_waits_for_nobody_to_ask_for_it(serve: Serve) -> None:
    service = serve(engine(MODEL, batch_size=4))
    first, second = cut(prompts(LENGTHS[:8]), 4)
    with gate_at_pass(3) as gate:
        early = service.submit(first, LONG)
        gate.wait()
        late = service.submit(second, SAMPLED)
        gate.open()
        assert_same(late.result(), reference(MODEL, second, SAMPLED))
    assert_same(early.result(), reference(MODEL, first, LONG))


def test_no_requests_are_done_at_once(serve: Serve) -> None:
    assert serve(engine(MODEL)).generate([], SAMPLED) == []


def test_no_call_is_lost_however_many_arrive_at_any_moment(serve: Serve) -> None:
    service = serve(engine(MODEL), gather_s=0.0)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns in the middle of everything
    try:
        with ThreadPoolExecutor(4) as callers:
            calls = [callers.submit(lambda: service.submit([], SAMPLED).result(timeout=10)) for _ in range(4000)]
            assert all(call.result() == [] for call in calls)
    finally:
        sys.setswitchinterval(before)


def test_weights_change_between_two_steps_and_errors_reach_the_caller(serve: Serve) -> None:
    model: PreTrainedModel = copy.deepcopy(MODEL)
    service = serve(engine(model))
    weights = {name: weight.clone() for name, weight in model.state_dict().items()}
    work = prompts(LENGTHS[:3])
    with ThreadPoolExecutor(1) as caller:
        running = caller.submit(service.generate, work, LONG)
        service.update_weights(weights, 3)
        with pytest.raises(ValueError, match="no weights named nonsense"):
            service.update_weights({"nonsense": torch.zeros(1)}, 4)
        assert service.stats()["policy_version"] == 3
        assert_same(running.result(), reference(model, work, LONG))
    assert {made.policy_version for made in service.generate(work, SAMPLED)} == {3}


def test_what_is_given_up_leaves_the_engine_and_the_rest_goes_on(serve: Serve) -> None:
    service = serve(engine(MODEL, batch_size=16), gather_s=GATHER_S)
    kept, running, waiting = cut(prompts(LENGTHS[:12]), 4)
    with gate_at_pass(3) as gate:
        wanted, unwanted = service.submit(kept, LONG), service.submit(running, LONG)
        gate.wait()
        late = service.submit(waiting, LONG)
        service.abort(unwanted)
        service.abort(late)
        gate.open()
        assert_same(wanted.result(), reference(MODEL, kept, LONG))
    for future in (unwanted, late):
        with pytest.raises(CancelledError):
            future.result()
    assert service.stats()["requests_done"] == len(kept)
    service.abort(wanted)
    assert len(wanted.result()) == len(kept)


def test_a_request_that_makes_the_engine_raise_fails_its_own_call_alone(serve: Serve) -> None:
    faulty = Faulty(KeyError("no such token"), guilty="problem 9")
    service = serve(faulty, gather_s=GATHER_S)
    pieces = cut(prompts(LENGTHS), 2)[:6]
    futures = [service.submit(piece, LONG) for piece in pieces]
    for number, (future, piece) in enumerate(zip(futures, pieces, strict=True)):
        if number == 4:
            assert future.exception() is faulty.fault
        else:
            assert_same(future.result(), reference(MODEL, piece, LONG))
    assert faulty.raised == 4  # in the midst of six calls, of three, of two, and alone
    assert_same(service.generate(pieces[0], SAMPLED), reference(MODEL, pieces[0], SAMPLED))


def test_what_was_completed_before_a_fault_is_not_made_again(serve: Serve) -> None:
    faulty = Faulty(KeyError("no such token"), guilty="problem 1")
    service = serve(faulty, gather_s=GATHER_S)
    one_token = GenerationRequest("fills the context but for one token", 0, tuple(range(3, 370)) + (5,) * 144)
    futures = [service.submit([one_token, *prompts([6])], LONG), service.submit(prompts([4, 4]), LONG)]
    with seen_forwards(MODEL) as calls:
        assert futures[1].exception() is faulty.fault
        assert len(futures[0].result()) == 2
    assert sum(len(ids[0]) > 400 for ids, _ in calls) == 1


@pytest.mark.parametrize(
    "fault", [torch.AcceleratorError("illegal memory access"), RuntimeError("cuBLAS: CUDA error: unknown")], ids=str
)
def test_an_error_that_breaks_the_device_ends_all_work(serve: Serve, fault: Exception) -> None:
    service = serve(Faulty(fault, guilty="problem 0"), gather_s=GATHER_S)
    futures = [service.submit(piece, LONG) for piece in cut(prompts(LENGTHS), 4)]
    for future in futures:
        with pytest.raises(EngineBroken, match=str(fault)):
            future.result()
    with seen_forwards(MODEL) as calls:
        for work in (lambda: service.generate(prompts([4]), SAMPLED), lambda: service.update_weights({}, 1)):
            with pytest.raises(EngineBroken, match=str(fault)):
                work()
    assert calls == []


def test_a_lack_of_memory_does_not_break_the_device(serve: Serve) -> None:
    fault = torch.OutOfMemoryError("CUDA out of memory")
    service = serve(Faulty(fault, guilty="problem 0"))
    with pytest.raises(torch.OutOfMemoryError):
        service.generate(prompts([4]), LONG)
    assert len(service.generate(prompts([4, 5])[1:], LONG)) == 1


def test_a_thread_that_cannot_be_prepared_leaves_nobody_waiting() -> None:
    def refuse() -> None:
        raise OSError("no such core")

    service = EngineService(engine(MODEL), refuse)
    with pytest.raises(EngineBroken, match="no such core"):
        service.generate(prompts([4]), SAMPLED)
    service.close()


def test_closing_ends_the_thread_and_leaves_nobody_waiting() -> None:
    service = EngineService(engine(MODEL))
    with gate_at_pass(3) as gate, ThreadPoolExecutor(1) as closer:
        running = service.submit(prompts(LENGTHS), LONG)
        gate.wait()
        waiting = service.submit(prompts([4]), LONG)
        closed = closer.submit(service.close)
        gate.open()
        closed.result()
    late = service.submit(prompts([4]), LONG)
    for future in (running, waiting, late):
        with pytest.raises(ServiceClosed, match="closed before"):
            future.result(timeout=30)
    assert "engine" not in {thread.name for thread in threading.enumerate()}


def test_preparation_comes_first_and_on_the_thread_that_works() -> None:
    seen: list[str] = []
    hook = MODEL.register_forward_pre_hook(lambda *_: seen.append(threading.current_thread().name))
    service = EngineService(engine(MODEL), lambda: seen.append("prepared"))
    service.generate(prompts([4]), SamplingParams(max_new_tokens=3))
    service.close()
    hook.remove()
    assert seen[0] == "prepared"
    assert set(seen[1:]) == {"engine"}


def test_an_idle_service_uses_no_processor_time(serve: Serve) -> None:
    service = serve(engine(MODEL))
    service.generate(prompts([4]), SAMPLED)
    clock = time.pthread_getcpuclockid(service._thread.ident or 0)
    time.sleep(0.05)
    before = time.clock_gettime(clock)
    time.sleep(0.2)
    assert time.clock_gettime(clock) - before < 0.002


def test_counters_stand_still_while_the_engine_does(serve: Serve) -> None:
    service = serve(engine(MODEL))
    made = service.generate(prompts(LENGTHS), SAMPLED)
    told = service.stats()
    assert told["tokens_sampled"] == sum(len(each.token_ids) for each in made)
    assert told["policy_version"] == 0
    assert told["steps"] > 20
    assert service.stats() == told
