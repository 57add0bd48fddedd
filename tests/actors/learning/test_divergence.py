import math

import pytest
import torch

from actors.learning.divergence import agreement, kl_estimate, top_k_forward_kl


def test_estimators_are_those_of_plain_loops() -> None:
    policy, other = torch.randn(2, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for place in range(20):
        k1 = policy[place].item() - other[place].item()
        assert kl_estimate(policy, other, "k1")[place].item() == pytest.approx(k1)
        assert kl_estimate(policy, other, "k2")[place].item() == pytest.approx(k1**2 / 2)
        assert kl_estimate(policy, other, "k3")[place].item() == pytest.approx(math.exp(-k1) + k1 - 1)


def test_k1_and_k3_estimate_the_divergence_and_the_gradient_of_k2_is_its_own() -> None:
    logits = torch.randn(2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    free, other = logits[0].clone().requires_grad_(), logits[1].log_softmax(-1)
    policy = free.log_softmax(-1)
    exact = (policy.exp() * (policy - other)).sum()
    chance = policy.exp().detach()
    for estimator in ("k1", "k3"):
        assert (chance * kl_estimate(policy, other, estimator)).sum().item() == pytest.approx(exact.item())
    expected = torch.autograd.grad((chance * kl_estimate(policy, other, "k2")).sum(), free, retain_graph=True)[0]
    torch.testing.assert_close(expected, torch.autograd.grad(exact, free)[0])


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
@pytest.mark.parametrize("difference", [-500.0, 500.0])
def test_an_extreme_ratio_gives_finite_values_and_gradients(estimator: str, difference: float) -> None:
    policy = torch.tensor([difference], requires_grad=True)
    value = kl_estimate(policy, torch.zeros(1), estimator)  # type: ignore[arg-type]
    value.sum().backward()
    assert value.isfinite().all()
    assert policy.grad is not None and policy.grad.isfinite().all()


def test_top_k_divergence_lumps_the_rest_into_one_token() -> None:
    teacher, student = torch.tensor([[0.5, 0.25, 0.15, 0.1], [0.1, 0.2, 0.3, 0.4]], dtype=torch.float64)
    found = top_k_forward_kl(student[None, :2].log(), teacher[None, :2].log())
    expected = 0.5 * math.log(0.5 / 0.1) + 0.25 * math.log(0.25 / 0.2) + 0.25 * math.log(0.25 / 0.7)
    assert found.tolist() == pytest.approx([expected])
    full = sum(p * math.log(p / q) for p, q in zip(teacher.tolist(), student.tolist(), strict=True))
    assert 0 < expected < full
    assert top_k_forward_kl(student[None].log(), teacher[None].log()).tolist() == pytest.approx([full])


def test_top_k_divergence_is_zero_only_for_the_teacher_and_finite_without_a_rest() -> None:
    teacher = torch.tensor([[0.6, 0.4, 0.0]]).clamp(min=1e-30).log()
    student = teacher.clone().requires_grad_()
    divergence = top_k_forward_kl(student, teacher)
    divergence.sum().backward()
    assert divergence.item() == pytest.approx(0, abs=1e-6)
    assert student.grad is not None and student.grad.isfinite().all()


def test_agreement_is_measured_and_a_gap_is_explained() -> None:
    metrics = agreement(torch.tensor([-1.0, -2.0]), torch.tensor([-1.0, -2.3]))
    assert metrics["sampling/logp_difference_mean"] == pytest.approx(0.15)
    assert metrics["sampling/logp_difference_max"] == pytest.approx(0.3)
    assert metrics["sampling/kl"] == pytest.approx((math.exp(0.3) - 0.3 - 1) / 2)
