import pytest
import sympy

from grading.constants import same_family

x, a, C, D, K, A, B = sympy.symbols("x a C D K A B")
C1, C2 = sympy.symbols("C_1 C_2")


@pytest.mark.parametrize(
    ("answer", "gold", "label"),
    [
        (x**2 + K, x**2 + C, ""),
        (A * sympy.exp(x) + B, C2 + C1 * sympy.exp(x), "y"),
        (B + A / x, C + D / x, "Y(x)"),
        (K * sympy.exp(x), C * sympy.exp(x), "f(x)"),
    ],
)
def test_a_constant_of_integration_may_have_any_name(answer, gold, label):
    assert same_family(answer, gold, label)


@pytest.mark.parametrize(
    ("answer", "gold", "label"),
    [
        (K * x, C * x, ""),  # a factor may be a quantity of the problem
        (B * x + A, A * x + B, "y"),
        (x**2, x**2 + C, ""),
        (x**2 + x, x**2 + C, ""),
        (2 * x + K, x + C, ""),
        (A * sympy.exp(x) + A, C1 * sympy.exp(x) + C2, "y"),
        (a + K, a + C, ""),  # no variable that it could be integrated over
        (K, C, ""),
    ],
)
def test_other_names_are_other_quantities(answer, gold, label):
    assert not same_family(answer, gold, label)
