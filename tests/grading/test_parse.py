import pytest
import sympy
from sympy import Rational, Symbol, sqrt

from grading.equality import equal
from grading.normalise import clean
from grading.parse import Parser
from grading.tokens import tokenize
from grading.unreadable import Unreadable


def parse(text, branch=1):
    return Parser(tokenize(clean(text)), branch).parse()


x, y = Symbol("x"), Symbol("y")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"\frac43", Rational(4, 3)),
        (r"\frac 59", Rational(5, 9)),
        (r"\frac9{19}", Rational(9, 19)),
        (r"\frac{270}7", Rational(270, 7)),
        (r"137 \frac{1}{2}", Rational(275, 2)),
        (r"-3\frac12", -Rational(7, 2)),
        ("1 1/4", Rational(5, 4)),
        (r"2\frac{3}{2}", 3),
        (r"\frac34i", Rational(3, 4) * sympy.I),
        (r"11\sqrt2", 11 * sqrt(2)),
        ("11 * sqrt(2)", 11 * sqrt(2)),
        (r"\sqrt[3]{-8}", -2),
        ("2^10", 1024),
        ("2**3", 8),
        ("x^10", x**10),
        ("x_1 + x_{1}", 2 * Symbol("x_1")),
        (r"\sin 2x", sympy.sin(2 * x)),
        (r"\sin^2 x", sympy.sin(x) ** 2),
        (r"\sin x^2", sympy.sin(x**2)),
        ("sin(x)^2", sympy.sin(x) ** 2),
        (r"\cos x/\sin x", sympy.cot(x)),
        (r"\sin \pi/6", Rational(1, 2)),
        (r"\sin^{-1} x", sympy.asin(x)),
        (r"2\sin x\cos y", 2 * sympy.sin(x) * sympy.cos(y)),
        ("7*sin(pi*x/5)+1", 7 * sympy.sin(sympy.pi * x / 5) + 1),
        (r"\sin 30^\circ", Rational(1, 2)),
        (r"\log_2 8", 3),
        (r"\log 100", 2),
        (r"\binom{5}{2}", 10),
        ("{5 \\choose 2}", 10),
        ("6!", 720),
        (r"|{-3}|", 3),
        (r"\lfloor 2.5 \rfloor", 2),
        ("1.5e3", 1500),
        (r"1.5 \times 10^{3}", 1500),
        ("12pi", 12 * sympy.pi),
        ("ab", Symbol("a") * Symbol("b")),
    ],
)
def test_reads_the_notation_of_answers(text, value):
    assert equal(parse(text), sympy.sympify(value))


def test_both_branches_of_a_plus_minus_are_read():
    assert [parse(r"1 \pm \sqrt{2}", branch) for branch in (1, -1)] == [1 + sqrt(2), 1 - sqrt(2)]


def test_lower_case_e_and_i_are_constants_and_capitals_are_variables():
    assert parse("e") is sympy.E
    assert parse("i") is sympy.I
    assert parse("E") == Symbol("E")


@pytest.mark.parametrize(
    "text",
    ["10^{10^{10}}", "5^{5^{5^{5^5}}}", "29^11^7", "1.0000001^{10^{18}}", r"(\sqrt2)^{10^{10}}", "(2x)^{1000000}", "100000000!",
     r"\binom{10^9}{5}", "1e1000000000", "1e-400000", r"\sqrt[10^{100}]{2}", r"7^{e^{e^{e^{10 e}}}}", "9" * 1500],
)  # fmt: skip
def test_numbers_out_of_reach_are_refused_and_never_computed(text):
    with pytest.raises(Unreadable, match="large"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100 + "1" + ")" * 100,
        r"\sqrt{" * 100 + "1" + "}" * 100,
        r"\sin " * 100 + "x",
        "-" + "|" * 200,
        "2^" * 100 + "1",
    ],
)
def test_nesting_is_limited(text):
    with pytest.raises(Unreadable):
        parse(text)


@pytest.mark.parametrize(
    "text",
    ["", r"\frac", r"\frac{1}{0}", "0^{-1}", "^_^", "1 2", "}", "(1", r"\begin{pmatrix}1&2\\3", r"\begin{tikzpicture}", "lambda",
     "eval(1)", "__import__", "x.y", "'a'", "open(1)", r"\def\x{\x}", r"\infty - \infty", "4\x002", "3.14\\ldots"],
)  # fmt: skip
def test_anything_else_is_unreadable(text):
    with pytest.raises(Unreadable):
        parse(text)
