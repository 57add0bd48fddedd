"""Training steps in this one process, on the classes that the actors are made of: `python -m … SPEC.json`.

Without Ray, so that the memory of the process is that of the work.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from actors.engine.build import EngineSettings, build_engine
from actors.engine.engine import Engine
from actors.engine.limits import Costs, costs_of
from actors.engine.machine import Machine, known_machine
from actors.engine.requests import GenerationRequest, SamplingParams
from actors.learning import AdvantageSettings, Example, LearnerSettings, Rollout, RolloutGroup
from actors.learning.learner import Learner
from actors.models import ModelSpec, load_model
from grading import RewardSettings, grade, reward
from pipelines.bench.children.memory import device_peak, forget_peak, peak_resident

STATE_BYTES = 28
"""Moved by an update of one float32 parameter: weight, gradient and two moments are read, three of them written."""


@dataclass(frozen=True, slots=True)
class Trainer:
    """A learner, and how long its work takes at the least."""

    learner: Learner
    costs: Costs
    machine: Machine

    @classmethod
    def load(cls, model: ModelSpec, settings: LearnerSettings) -> "Trainer":
        loaded = load_model(replace(model, dtype="float32"))
        learner = Learner(loaded.model, settings)
        return cls(learner, costs_of(loaded.model, 0, 0), known_machine(loaded.device, learner.policy.compute_dtype))

    def least_s(self, tokens: int, scored: int) -> float:
        """Seconds that an update from `tokens`, of which `scored` have a loss, takes at the least: three passes of
        matrix products (forward, and backward for inputs and weights), and the optimiser's traffic."""
        multiplied = 3 * (self.costs.token_flop * tokens + self.costs.logit_flop * scored)
        moved = STATE_BYTES * sum(weight.numel() for weight in self.learner.policy.trained().values())
        return multiplied / self.machine.flop_per_s + moved / self.machine.bytes_per_s


def measure(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Load, warm up, do the steps; returns what `Measurement.read` takes, a chunk a step."""
    torch.set_num_threads(spec["threads"])
    settings = LearnerSettings(
        advantages=AdvantageSettings(zero_variance_groups="keep"),
        token_budget=spec["token_budget"],
        share_prompts=spec["share_prompts"],
    )
    trainer = Trainer.load(ModelSpec(**spec["model"]), settings)
    step, warm_up = {"grpo": _grpo, "distill": _distill}[spec["workload"]](spec, trainer)
    warm_up()
    forget_peak()
    chunks, least_s, lengths = [], 0.0, []
    for number in range(spec["steps"]):
        start = time.perf_counter()
        tokens, least = step(number)
        chunks.append((sum(tokens), time.perf_counter() - start, True))
        lengths += tokens
        least_s += least
    seconds = sum(chunk[1] for chunk in chunks)
    return {
        "lengths": lengths,
        "seconds": seconds,
        "peak_resident": peak_resident(),
        "peak_working": peak_resident(),
        "peak_device": device_peak(trainer.learner.policy.device),
        "chunks": chunks,
        "limit_share": least_s / seconds,
    }


Step = Callable[[int], tuple[list[int], float]]
"""From the step's number to the tokens of each sequence, and the least seconds that the step takes."""


def _grpo(spec: Mapping[str, Any], trainer: Trainer) -> tuple[Step, Callable[[], object]]:
    """Rollouts, rewards, update and new weights for the generator."""
    loaded = load_model(ModelSpec(**spec["model"]))
    dtype = loaded.dtype
    engine = build_engine(loaded, EngineSettings(batch_size=spec["batch_size"]))
    sampling = SamplingParams(temperature=1.0, max_new_tokens=spec["max_new_tokens"])

    def step(number: int) -> tuple[list[int], float]:
        problems = spec["problems"][number]
        least_before = engine.progress.least_s
        groups = _rollouts(engine, problems, spec["num_generations"], replace(sampling, seed=spec["seed"] + number))
        trainer.learner.step(groups)
        engine.update_weights(dict(trainer.learner.weights(dtype)), trainer.learner.policy_version)
        lengths = [len(rollout.completion_ids) for group in groups for rollout in group.rollouts]
        prompts = sum(len(problem["prompt"]) for problem in problems)
        generating = engine.progress.least_s - least_before
        return lengths, generating + trainer.least_s(prompts + sum(lengths), sum(lengths))

    def warm_up() -> None:
        few = _rollouts(engine, spec["problems"][0][:1], 2, replace(sampling, max_new_tokens=4))
        trainer.learner.step(few)

    return step, warm_up


def _rollouts(
    engine: Engine, problems: Sequence[Mapping[str, Any]], count: int, sampling: SamplingParams
) -> list[RolloutGroup]:
    requests = [
        GenerationRequest(problem["id"], index, tuple(problem["prompt"]))
        for problem in problems
        for index in range(count)
    ]
    made = iter(engine.generate(requests, sampling))
    groups = []
    for problem in problems:
        rollouts = []
        for completion in (next(made) for _ in range(count)):
            verdict = grade(completion.text, problem["answer"])
            tokens = len(completion.token_ids)
            value = reward(verdict, RewardSettings(), num_tokens=tokens, max_tokens=sampling.max_new_tokens)
            rollouts.append(Rollout.of(completion, value, verdict.correct))
        groups.append(RolloutGroup(problem["id"], tuple(problem["prompt"]), tuple(rollouts)))
    return groups


def _distill(spec: Mapping[str, Any], trainer: Trainer) -> tuple[Step, Callable[[], object]]:
    """Updates towards solutions: one a step, or one an example."""
    steps = [[Example(tuple(prompt), tuple(answer)) for prompt, answer in examples] for examples in spec["examples"]]

    def step(number: int) -> tuple[list[int], float]:
        examples = steps[number]
        each = spec["examples_an_update"]
        for first in range(0, len(examples), each):
            trainer.learner.supervised_step(examples[first : first + each])
        lengths = [len(example.prompt_ids) + len(example.answer_ids) for example in examples]
        least = trainer.least_s(sum(lengths), sum(len(example.answer_ids) for example in examples))
        return lengths, least

    return step, lambda: trainer.learner.supervised_step(steps[0][:1])


if __name__ == "__main__":
    logging.disable_progress_bar()
    print(json.dumps(measure(json.loads(Path(sys.argv[1]).read_text()))))
