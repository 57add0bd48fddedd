"""Units of groups on a real engine: the prompt of a problem's samples is computed once."""

from concurrent.futures import FIRST_COMPLETED, Future, wait

import pytest
import torch

from actors.engine import Completion, GenerationRequest, SamplingParams
from actors.engine.continuous.runs import BLOCK
from actors.engine.service import EngineService
from pipelines.dispatch.units import make_units, plan_units
from tests.actors.engine.continuous.engines import continuous
from tests.actors.engine.tiny import tiny_model

PROBLEMS, GROUP, PROMPT_TOKENS = 24, 8, 6 * BLOCK + 5
SAMPLING = SamplingParams(temperature=1.0, max_new_tokens=20)


@pytest.mark.parametrize("batch_size", [8, 16, 32, 64])
def test_a_prompt_is_computed_once_for_its_group_whatever_the_batch(batch_size: int) -> None:
    requests = [
        GenerationRequest(f"p{problem:02}", sample, tuple(3 + (problem + step) % 200 for step in range(PROMPT_TOKENS)))
        for problem in range(PROBLEMS)
        for sample in range(GROUP)
    ]
    plan = plan_units(batch_size, len(requests), 1, GROUP)
    units = make_units(requests, plan.size, SAMPLING)
    engine = continuous(tiny_model("llama"), batch_size, token_budget=None)
    service = EngineService(engine, lambda: torch.set_num_threads(1))
    held: set[Future[list[Completion]]] = set()
    done: list[Completion] = []
    try:
        while units or held:
            while units and len(held) < plan.window:
                held.add(service.submit(units.pop(0).items, SAMPLING))
            finished, held = wait(held, timeout=60, return_when=FIRST_COMPLETED)
            done += [completion for future in finished for completion in future.result()]
    finally:
        service.close()
    assert len({completion.key for completion in done}) == len(requests)
    rest_of_prompt = PROMPT_TOKENS % BLOCK
    assert engine.progress.prompt_tokens <= PROBLEMS * PROMPT_TOKENS + len(requests) * rest_of_prompt
