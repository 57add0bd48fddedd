import pytest
import torch

from actors.learning.rollouts import Example
from actors.learning.settings import LearnerSettings, OptimizerSettings
from actors.learning.teacher import teacher_tokens
from tests.actors.engine.tiny import tiny_model
from tests.actors.learning.cases import own_learner, own_model
from tests.actors.learning.test_policy import ROWS


@pytest.mark.parametrize("architecture", ["llama", "gemma2_window_8"])
@pytest.mark.parametrize("budget", [1, 1000])
def test_a_teachers_tokens_are_the_most_probable_ones_of_each_row_alone(architecture: str, budget: int) -> None:
    model = tiny_model(architecture)
    for row, found in zip(ROWS, teacher_tokens(model, ROWS, 3, budget), strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([row.prompt_ids + row.completion_ids]), use_cache=False).logits[0]
        top = logits[len(row.prompt_ids) - 1 : -1].log_softmax(dim=-1).topk(3, dim=-1)
        assert [list(ids) for ids in found.ids] == top.indices.tolist()
        torch.testing.assert_close(torch.tensor(found.logprobs), top.values, rtol=1e-5, atol=1e-5)


def test_a_student_that_is_its_teacher_has_nothing_to_learn_and_another_comes_closer() -> None:
    teacher = own_model()
    tokens = teacher_tokens(teacher, ROWS, 8, 1000)
    examples = [Example(row.prompt_ids, row.completion_ids, each) for row, each in zip(ROWS, tokens, strict=True)]
    settings = LearnerSettings(compute_dtype="float32", teacher_weight=1.0, optimizer=OptimizerSettings(lr=3e-3))
    learner = own_learner(settings)
    assert learner.supervised_loss(examples)["loss/teacher_kl"] == pytest.approx(0, abs=1e-5)
    with torch.no_grad():
        for weight in learner.policy.trained().values():
            weight.add_(0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0)))
    before = learner.supervised_loss(examples)["loss/teacher_kl"]
    for _ in range(10):
        learner.supervised_step(examples)
    assert 0 < learner.supervised_loss(examples)["loss/teacher_kl"] < before / 2


def test_ids_beyond_the_students_vocabulary_do_not_exist_for_the_teacher() -> None:
    model = tiny_model("llama")
    (found,) = teacher_tokens(model, ROWS[:1], 3, 1000, vocabulary=50)
    with torch.no_grad():
        logits = model(torch.tensor([ROWS[0].prompt_ids + ROWS[0].completion_ids]), use_cache=False).logits[0]
    top = logits[len(ROWS[0].prompt_ids) - 1 : -1, :50].log_softmax(dim=-1).topk(3, dim=-1)
    assert [list(ids) for ids in found.ids] == top.indices.tolist()
    torch.testing.assert_close(torch.tensor(found.logprobs), top.values, rtol=1e-5, atol=1e-5)


def test_more_tokens_than_the_vocabulary_are_refused() -> None:
    with pytest.raises(ValueError, match="vocabulary of 400, got 401"):
        teacher_tokens(tiny_model("llama"), ROWS, 401, 1000)
