import math
import random
from typing import Any

import pytest
import torch

from actors.learning.rollouts import Example, TeacherTokens
from actors.learning.settings import LearnerSettings, OptimizerSettings
from tests.actors.engine.tiny import EOS, VOCABULARY
from tests.actors.learning.cases import (
    NO_CLIPPING,
    gradient_of,
    own_learner,
    own_model,
    plain_logprobs,
    relative_difference,
)


def settings(**fields: Any) -> LearnerSettings:
    return LearnerSettings(
        **{
            "compute_dtype": "float32",
            "temperature": 0.5,
            "optimizer": OptimizerSettings(lr=1e-2, max_grad_norm=NO_CLIPPING),
        }
        | fields
    )


def examples(count: int = 7, teacher_width: int = 0) -> list[Example]:
    draw = random.Random(3)

    def ids(length: int) -> tuple[int, ...]:
        return tuple(draw.randrange(3, VOCABULARY) for _ in range(length))

    def teacher(length: int) -> TeacherTokens:
        chosen, logprobs = [], []
        for _ in range(length):
            chosen.append(tuple(draw.sample(range(VOCABULARY), teacher_width)))
            shares = [draw.uniform(0.05, 0.9 / teacher_width) for _ in range(teacher_width)]
            logprobs.append(tuple(math.log(share) for share in shares))
        return TeacherTokens(tuple(chosen), tuple(logprobs))

    found = []
    for _ in range(count):
        answer = (*ids(draw.randint(1, 12)), EOS)
        found.append(Example(ids(draw.randint(1, 8)), answer, teacher(len(answer)) if teacher_width else None))
    return found


def test_loss_and_gradient_are_those_of_transformers_with_masked_labels() -> None:
    """transformers means over the labels of a call; one call of all rows therefore is the token mean of the step."""
    batch = examples()
    model = own_model()
    width = max(len(row.prompt_ids + row.answer_ids) for row in batch)
    ids, labels = torch.full((len(batch), width), 3), torch.full((len(batch), width), -100)
    for place, row in enumerate(batch):
        tokens = torch.tensor(row.prompt_ids + row.answer_ids)
        ids[place, : len(tokens)] = tokens
        labels[place, len(row.prompt_ids) : len(tokens)] = torch.tensor(row.answer_ids)
    loss = model(input_ids=ids, labels=labels, use_cache=False).loss
    loss.backward()
    plain = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}

    learner = own_learner(settings())
    metrics: dict[str, float] = {}
    found = gradient_of(learner, lambda rows: metrics.update(learner.supervised_step(rows)), batch)
    assert metrics["loss/supervised"] == pytest.approx(loss.item(), rel=1e-5)
    assert relative_difference(plain, found) < 1e-5


@pytest.mark.parametrize("teacher_width", [0, 3])
def test_gradient_does_not_depend_on_micro_batches_or_order(teacher_width: int) -> None:
    batch = examples(teacher_width=teacher_width)

    def gradient(budget: int, rows: list[Example]) -> dict[str, torch.Tensor]:
        learner = own_learner(settings(token_budget=budget))
        return gradient_of(learner, learner.supervised_step, rows)

    whole = gradient(10_000, batch)
    for budget in (1, 30, 60):
        assert relative_difference(whole, gradient(budget, batch)) < 1e-6
    assert relative_difference(whole, gradient(30, batch[::-1])) < 1e-6


def test_distillation_is_the_mixture_written_out_token_by_token() -> None:
    batch = examples(count=3, teacher_width=3)
    model = own_model()
    tokens = sum(len(row.answer_ids) for row in batch)
    likelihood: Any = 0.0
    divergence: Any = 0.0
    for row in batch:
        assert row.teacher is not None
        logits = model(torch.tensor([row.prompt_ids + row.answer_ids]), use_cache=False).logits[0].double()
        for place, answer in enumerate(row.answer_ids):
            scores = logits[len(row.prompt_ids) - 1 + place].log_softmax(dim=-1)
            likelihood = likelihood - scores[answer] / tokens
            teacher = [math.exp(value) for value in row.teacher.logprobs[place]]
            student = [scores[token].exp() for token in row.teacher.ids[place]]
            for p, q in [*zip(teacher, student, strict=True), (1 - sum(teacher), 1 - sum(student))]:
                divergence = divergence + p * (math.log(p) - q.log()) / tokens
    (0.3 * likelihood + 0.7 * divergence).backward()
    plain = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}

    learner = own_learner(settings(teacher_weight=0.7))
    metrics: dict[str, float] = {}
    found = gradient_of(learner, lambda rows: metrics.update(learner.supervised_step(rows)), batch)
    assert metrics["loss/teacher_kl"] == pytest.approx(divergence.item(), rel=1e-4)
    assert metrics["loss/supervised"] == pytest.approx(likelihood.item(), rel=1e-5)
    assert relative_difference(plain, found) < 1e-4


def test_answers_become_likely_including_their_end() -> None:
    batch = examples()
    learner = own_learner(settings())
    before = learner.supervised_loss(batch)["loss/supervised"]
    for _ in range(30):
        metrics = learner.supervised_step(batch)
    assert metrics["loss/supervised"] < before / 4
    ends = [plain_logprobs(learner.policy.base, row.prompt_ids, row.answer_ids, 1.0)[-1].item() for row in batch]
    assert min(ends) > math.log(0.5), "the end-of-sequence token is learnt although it is the padding token too"


def test_held_out_loss_is_the_loss_of_a_step_and_changes_nothing() -> None:
    learner = own_learner(settings())
    batch = examples()
    held_out = learner.supervised_loss(batch)
    assert learner.step_count == 0
    assert learner.supervised_step(batch)["loss/supervised"] == pytest.approx(held_out["loss/supervised"])


def test_a_batch_with_and_without_teacher_is_refused() -> None:
    mixed = [*examples(2), *examples(2, teacher_width=2)]
    with pytest.raises(ValueError, match="2 of 4 examples carry a teacher"):
        own_learner(settings()).supervised_step(mixed)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Example((), (1,)), "at least one token each"),
        (lambda: Example((1,), ()), "at least one token each"),
        (lambda: Example((1,), (1, 2), TeacherTokens(((1,),), ((-1.0,),))), "2 answer tokens, its teacher 1"),
        (lambda: TeacherTokens(((1, 2),), ((-1.0,),)), "as many log-probabilities as ids"),
        (lambda: own_learner(settings()).supervised_step([]), "at least one example"),
    ],
)
def test_incomplete_examples_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
