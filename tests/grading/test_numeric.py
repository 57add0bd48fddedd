import pytest
import sympy

from grading.equality import equal, proportional
from grading.numeric import NotComputable, evaluate

x, y, n = sympy.symbols("x y n")


def test_values_agree_with_sympy():
    expression = sympy.sqrt(2) * sympy.sin(1) + sympy.log(3) ** sympy.pi
    assert abs(evaluate(expression, {}) - sympy.N(expression, 50)) < 1e-45


@pytest.mark.parametrize(
    "expression", [sympy.exp(sympy.exp(sympy.exp(30))), sympy.sin(sympy.exp(100)), sympy.oo, sympy.Function("f")(x)]
)
def test_values_out_of_reach_are_refused(expression):
    with pytest.raises(NotComputable):
        evaluate(expression, {x: 1})


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((x + 1) ** 2, x**2 + 2 * x + 1),
        (sympy.sin(2 * x), 2 * sympy.sin(x) * sympy.cos(x)),
        (sympy.sqrt(5 + 2 * sympy.sqrt(6)), sympy.sqrt(2) + sympy.sqrt(3)),
        (sympy.sin(x) ** 2 + sympy.cos(x) ** 2 - 1, sympy.Integer(0)),
        (sympy.sqrt(1 / n), 1 / sympy.sqrt(n)),
        (sympy.factorial(n + 1), (n + 1) * sympy.factorial(n)),
    ],
)
def test_identities_hold(left, right):
    assert equal(left, right)
    assert equal(right, left)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (sympy.sqrt(x**2), x),
        (sympy.pi / 2**200, sympy.pi / 2**199),
        (sympy.exp(sympy.pi * sympy.sqrt(163)), sympy.Integer(640320**3 + 744)),
        (sympy.sqrt(2), sympy.Rational(14142135623730950488016887242097, 10**31)),
        (x, y),
        (sympy.oo, -sympy.oo),
        (sympy.I, -sympy.I),
        (sympy.Function("f")(x), sympy.Function("f")(y)),
    ],
)
def test_near_and_partial_identities_fail(left, right):
    assert not equal(left, right)
    assert not equal(right, left)


@pytest.mark.parametrize("name", ["a", "b", "k", "n", "p", "q", "r", "s", "t", "w", "x", "y", "z", "x_1", "theta"])
def test_every_variable_is_tried_with_both_signs(name):
    symbol = sympy.Symbol(name)
    assert not equal(sympy.Abs(symbol), symbol)
    assert not equal(sympy.Abs(symbol), -symbol)


def test_equations_are_the_same_up_to_a_constant_factor_only():
    assert proportional(x - 2 * y, 4 * y - 2 * x)
    assert not proportional(x - 2 * y, x * (x - 2 * y))
    assert not proportional(x - 2 * y, 4 * y - 2 * x, positive=True)
    assert not proportional(sympy.Integer(0) * x, x)
