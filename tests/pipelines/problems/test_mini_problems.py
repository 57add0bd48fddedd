"""The built-in problems: every answer is worked out again here, by sympy or by counting."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import pytest
import sympy as sp

from pipelines.problems import DataSource, load_problems

x, y, z = sp.symbols("x y z", real=True)
k = sp.symbols("k", integer=True, positive=True)
SUBJECTS = {
    "Algebra",
    "Intermediate Algebra",
    "Prealgebra",
    "Number Theory",
    "Precalculus",
    "Geometry",
    "Counting & Probability",
}
PROBLEMS = {problem.id: problem for problem in load_problems(DataSource("builtin:mini"))}
INTERIOR = [Fraction(n, 7) for n in range(-210, 211)]


def only(values: list) -> object:
    (value,) = values
    return value


def frac(value: Fraction | sp.Rational) -> str:
    value = Fraction(int(value.numerator), int(value.denominator))
    minus = "-" if value < 0 else ""
    return rf"{minus}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def base(number: int, radix: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, radix)
        digits = str(digit) + digits
    return digits


def holds_exactly(condition: Callable[[Fraction], bool], inside: Callable[[Fraction], bool]) -> bool:
    """Whether a condition and an interval agree on a grid of sevenths that meets its ends or comes close."""
    grid = [*INTERIOR, *(Fraction(n, 3) for n in range(-60, 61))]
    return all(condition(value) == inside(value) for value in grid)


def defined(denominator: Fraction, condition: Callable[[], bool]) -> bool:
    return denominator != 0 and condition()


def is_root_set(expression: sp.Expr, roots: list) -> bool:
    return set(sp.solve(expression, x)) == set(roots)


def same(left: object, right: object) -> bool:
    return sp.simplify(sp.sympify(left) - sp.sympify(right)) == 0


def given(truth: object, answer: str) -> str:
    """`answer`, when the computation that stands for it came out true."""
    return answer if truth else "the check failed"


def paths(avoid: tuple[int, int] | None) -> int:
    count = 0
    for rights in itertools.combinations(range(9), 5):
        points = [(sum(r < n for r in rights), n - sum(r < n for r in rights)) for n in range(10)]
        count += avoid not in points
    return count


def dice(condition: Callable[[int, int], bool]) -> Fraction:
    rolls = list(itertools.product(range(1, 7), repeat=2))
    return Fraction(sum(condition(*roll) for roll in rolls), len(rolls))


def vector(*entries: int) -> sp.Matrix:
    return sp.Matrix(entries)


def plane_through(*points: tuple[int, int, int]) -> sp.Expr:
    a, b, c = (sp.Matrix(point) for point in points)
    normal = (b - a).cross(c - a)
    normal = normal / sp.gcd(list(normal)) * sp.sign(normal[0])
    return sp.expand(normal.dot(sp.Matrix([x, y, z]) - a))


pi = sp.pi
degree = sp.pi / 180
pmatrix = r"\begin{pmatrix} %s & %s \\ %s & %s \end{pmatrix}"
column = r"\begin{pmatrix} %s \\ %s \end{pmatrix}"
runs = {"Ava": Fraction(100), "Ben": Fraction(98), "Cleo": Fraction(17, 10) * 60, "Dan": Fraction(3600, 35)}
powers = {"A": 2**48, "B": 3**36, "C": 5**24, "D": 20**12, "E": 4**12 * 6**12}
wheel = Fraction(1, 4) * 6 + Fraction(1, 3) * 3
heron = sp.sqrt(sp.Integer(12 * 5 * 4 * 3))

CHECKS: dict[str, Callable[[], str]] = {
    "algebra/01": lambda: str(only(sp.solve(4 * x - 7 - 21, x))),
    "algebra/02": lambda: frac(sp.diff(only(sp.solve(6 * x - 4 * y - 9, y)), x)),
    "algebra/03": lambda: rf"\${145 + (280 - 145) / 3 * 1.5:.2f}",
    "algebra/04": lambda: str(sp.expand((2 * x - 3) * (x**2 + x - 4))).replace("**", "^").replace("*", ""),
    "algebra/05": lambda: rf"\${int(12000 * Fraction(105, 100) ** 2):,}".replace(",", r",\!"),
    "algebra/06": lambda: given(
        holds_exactly(lambda v: abs(3 * v + 1) <= 10, lambda v: Fraction(-11, 3) <= v <= 3),
        r"\left[-\frac{11}{3},3\right]",
    ),
    "algebra/07": lambda: f"y = -3x + {7 - 3 * 2}",
    "algebra/08": lambda: given(same(sp.sqrt(50) - sp.sqrt(8) + sp.sqrt(18), 6 * sp.sqrt(2)), r"6\sqrt{2}"),
    "algebra/09": lambda: given(
        is_root_set(3 * x**2 + 5 * x - 2, [-2, sp.Rational(1, 3)]), r"\left\{-2,\frac{1}{3}\right\}"
    ),
    "algebra/10": lambda: given(
        holds_exactly(lambda v: defined(4 - v, lambda: (v + 1) / (4 - v) >= 0), lambda v: -1 <= v < 4), "[-1,4)"
    ),
    "algebra/11": lambda: given(
        holds_exactly(lambda v: v**2 - 2 * v - 15 > 0, lambda v: v < -3 or v > 5), r"(-\infty,-3) \cup (5,\infty)"
    ),
    "algebra/12": lambda: given(is_root_set(x**2 - 6 * x + 4, [3 - sp.sqrt(5), 3 + sp.sqrt(5)]), r"3 \pm \sqrt{5}"),
    "algebra/13": lambda: str(
        only(list({sp.expand(a**3 + b**3) for a, b in sp.solve([x + y - 7, x**2 + y**2 - 29], [x, y])}))
    ),
    "algebra/14": lambda: ", ".join(
        map(str, [n for n in range(-20, 21) if Fraction(4) ** n - 10 * Fraction(2) ** n == -16])
    ),
    "algebra/15": lambda: given(
        same(only(sp.solve((3 * y + 1) / (y - 2) - x, y)), (2 * x + 1) / (x - 3)), r"\frac{2x+1}{x-3}"
    ),
    "intermediate_algebra/01": lambda: str(sp.expand((3 + 2 * sp.I) * (1 - 4 * sp.I))).replace("*I", "i"),
    "intermediate_algebra/02": lambda: str((-3) ** 3 - 4 * (-3) + 1),
    "intermediate_algebra/03": lambda: given(same(sp.rem(x**5 - 2 * x + 1, x**2 - 1, x), 1 - x), "-x + 1"),
    "intermediate_algebra/04": lambda: str(only([v for v in range(2, 1000) if (v - 1) * (v + 5) == 27])),
    "intermediate_algebra/05": lambda: given(
        sp.calculus.util.function_range(6 / (x**2 + 2), x, sp.S.Reals) == sp.Interval.Lopen(0, 3), "(0,3]"
    ),
    "intermediate_algebra/06": lambda: given(sp.div(2 * x**2 + 3 * x - 1, x + 2, x)[0] == 2 * x - 1, "y = 2x - 1"),
    "intermediate_algebra/07": lambda: ", ".join(map(str, sorted(sp.solve(x**3 - 7 * x + 6, x)))),
    "intermediate_algebra/08": lambda: given(
        same(4 * x**2 - 9 * y**2 + 16 * x + 18 * y - 29, 4 * (x + 2) ** 2 - 9 * (y - 1) ** 2 - 36), r"\text{hyperbola}"
    ),
    "intermediate_algebra/09": lambda: frac(
        sp.nsimplify(
            sum(1 / root for root in sp.Poly(x**3 - 5 * x**2 + 3 * x + 2).nroots(n=30)), rational=True, tolerance=1e-12
        )
    ),
    "intermediate_algebra/10": lambda: given(
        holds_exactly(lambda v: defined(v + 3, lambda: (v - 1) / (v + 3) >= 2), lambda v: -7 <= v < -3),
        r"x \in [-7,-3)",
    ),
    "intermediate_algebra/11": lambda: given(
        sp.factor(x**4 + 4) == (x**2 - 2 * x + 2) * (x**2 + 2 * x + 2), "(x^2 - 2x + 2)(x^2 + 2x + 2)"
    ),
    "intermediate_algebra/12": lambda: given(
        sp.summation(1 / (k * (k + 2)), (k, 1, sp.oo)) == sp.Rational(3, 4), r"\frac34"
    ),
    "intermediate_algebra/13": lambda: str(
        sp.expand((lambda w: (1 - w + w**2) ** 5 + (1 + w - w**2) ** 5)(sp.Rational(-1, 2) + sp.sqrt(3) / 2 * sp.I))
    ),
    "prealgebra/01": lambda: str(3 / 8),
    "prealgebra/02": lambda: str(-6 + 4 * (9 - 2)),
    "prealgebra/03": lambda: (lambda s: f"{s // 1}" + frac(s % 1))(Fraction(7, 3) + Fraction(7, 4)),
    "prealgebra/04": lambda: rf"\${80 * 85 // 100}",
    "prealgebra/05": lambda: rf"{Fraction(21, 60) * 100}\%",
    "prealgebra/06": lambda: rf"{float(Fraction(5, 2) * 36 / 20)} \text{{ cups}}",
    "prealgebra/07": lambda: rf"{only(sp.solve(x + 4 * x - 180, x))}^\circ",
    "prealgebra/08": lambda: rf"\text{{{sorted(runs, key=runs.__getitem__)[2]}}}",
    "prealgebra/09": lambda: f"{(3 * 24 + 7) * 60 * 60:,}".replace(",", r",\!"),
    "prealgebra/10": lambda: str(int(5 * 18 - 4 * 15.5)),
    "prealgebra/11": lambda: rf"{(24 + 6) * (18 + 6) - 24 * 18} \mbox{{ ft}}^2",
    "prealgebra/12": lambda: rf"\text{{({max(powers, key=powers.__getitem__)})}}",
    "prealgebra/13": lambda: str(1 / (Fraction(1, 6) - Fraction(1, 10))),
    "number_theory/01": lambda: str(math.gcd(84, 126)),
    "number_theory/02": lambda: str(2**10 % 7),
    "number_theory/03": lambda: f"{base(173, 6)}_6",
    "number_theory/04": lambda: str(sum(360 % d == 0 for d in range(1, 361))),
    "number_theory/05": lambda: f"{base(int('352', 7) + int('164', 7), 7)}_{{7}}",
    "number_theory/06": lambda: str(next(n for n in itertools.count(1) if (n % 5, n % 7, n % 4) == (3, 4, 1))),
    "number_theory/07": lambda: f"{pow(7, 2023, 100):02d}",
    "number_theory/08": lambda: frac(Fraction(2, 10) + Fraction(36, 990)),
    "number_theory/09": lambda: "({},{})".format(
        *only([(a, b) for a in range(1, 60) for b in range(1, 60) if 5 * a + 7 * b == 58])
    ),
    "number_theory/10": lambda: str(sum((n * n + n + 1) % 7 == 0 for n in range(1, 101))),
    "number_theory/11": lambda: str(max(n for n in range(1, 60) if math.factorial(50) % 6**n == 0)),
    "number_theory/12": lambda: ", ".join(str(n) for n in range(1, 1000) if n != 3 and (n + 17) % (n - 3) == 0),
    "precalculus/01": lambda: frac(sp.sin(150 * degree)),
    "precalculus/02": lambda: rf"{only([d for d in range(1, 90) if sp.tan(d * degree) == sp.sqrt(3)])}^\circ",
    "precalculus/03": lambda: pmatrix % tuple(sp.Matrix([[1, 2], [3, 4]]) * sp.Matrix([[0, -1], [2, 5]])),
    "precalculus/04": lambda: given(
        6 * sp.cos(2 * pi / 3) == -3 and same(6 * sp.sin(2 * pi / 3), 3 * sp.sqrt(3)), r"\left(-3,3\sqrt{3}\right)"
    ),
    "precalculus/05": lambda: column % tuple(vector(4, 1).project(vector(2, 3))),
    "precalculus/06": lambda: given(
        sp.solveset(2 * sp.cos(x) ** 2 - 1 - sp.sin(x), x, sp.Interval.Ropen(0, 2 * pi))
        == sp.FiniteSet(pi / 6, 5 * pi / 6, 3 * pi / 2),
        r"\frac{\pi}{6}, \frac{5\pi}{6}, \frac{3\pi}{2}",
    ),
    "precalculus/07": lambda: pmatrix % tuple(sp.Matrix([[3, 5], [1, 2]]).inv()),
    "precalculus/08": lambda: given(
        same(sp.expand((sp.sqrt(3) + sp.I) ** 8), -128 - 128 * sp.sqrt(3) * sp.I), r"-128 - 128\sqrt{3}i"
    ),
    "precalculus/09": lambda: given(
        same(sp.cos(75 * degree), (sp.sqrt(6) - sp.sqrt(2)) / 4), r"\frac{\sqrt{6}-\sqrt{2}}{4}"
    ),
    "precalculus/10": lambda: given(
        same(sp.expand_trig((1 - sp.cos(2 * x)) / sp.sin(2 * x)).subs(sp.cos(x) ** 2, 1 - sp.sin(x) ** 2), sp.tan(x)),
        r"\tan x",
    ),
    "precalculus/11": lambda: given(
        same(3 * sp.sin(x) + 4 * sp.cos(x), 5 * sp.sin(x + sp.atan2(4, 3))), f"[{1 - 5},{1 + 5}]"
    ),
    "precalculus/12": lambda: str(plane_through((1, 0, 2), (0, 3, 1), (2, 1, 1))).replace("*", "") + " = 0",
    "precalculus/13": lambda: frac(
        Fraction(math.prod(math.sin(math.radians(d)) for d in (10, 50, 70))).limit_denominator(1000)
    ),
    "geometry/01": lambda: str(math.isqrt(8**2 + 15**2)),
    "geometry/02": lambda: rf"{(8 - 2) * 180 // 8}^\circ",
    "geometry/03": lambda: rf"{(14 // 2) ** 2}\pi",
    "geometry/04": lambda: rf"{6 * math.isqrt(10**2 - 6**2)} \text{{ cm}}^2",
    "geometry/05": lambda: given(same(sp.Rational(1, 2) * 100 * sp.sin(60 * degree), 25 * sp.sqrt(3)), r"25\sqrt{3}"),
    "geometry/06": lambda: rf"\left({Fraction(1 + 7 + 4, 3)},{frac(Fraction(2 + 2 + 9, 3))}\right)",
    "geometry/07": lambda: rf"{5 * 5 + 5 * math.isqrt(5**2 + 12**2)}\pi",
    "geometry/08": lambda: str(math.isqrt((9 + 4) ** 2 - (9 - 4) ** 2)),
    "geometry/09": lambda: given(same(heron, 12 * sp.sqrt(5)), r"12\sqrt{5}"),
    "geometry/10": lambda: rf"{2 * 6}+{Fraction(150, 360) * 12}\pi",
    "geometry/11": lambda: given(
        all((a - 3) ** 2 + (b - 4) ** 2 == 25 for a, b in [(0, 0), (6, 0), (0, 8)]), "(x-3)^2 + (y-4)^2 = 25"
    ),
    "geometry/12": lambda: frac(sp.Triangle((0, 0), (14, 0), (5, 12)).circumradius),
    "geometry/13": lambda: given(
        same(
            abs(sp.Matrix([[6, 0, 0], [3, 3 * sp.sqrt(3), 0], [3, sp.sqrt(3), 2 * sp.sqrt(6)]]).det()) / 6,
            18 * sp.sqrt(2),
        ),
        r"18\sqrt{2}",
    ),
    "counting_and_probability/01": lambda: str(len(list(itertools.combinations(range(9), 2)))),
    "counting_and_probability/02": lambda: frac(
        Fraction(sum(sum(toss) == 1 for toss in itertools.product((0, 1), repeat=3)), 8)
    ),
    "counting_and_probability/03": lambda: str(len(set(itertools.permutations("LEVEL")))),
    "counting_and_probability/04": lambda: rf"{Fraction(6 + 5, 9 + 6 + 5) * 100}\%",
    "counting_and_probability/05": lambda: str(
        sum(sum(person < 7 for person in group) == 3 for group in itertools.combinations(range(12), 5))
    ),
    "counting_and_probability/06": lambda: frac(dice(lambda a, b: a + b >= 9)),
    "counting_and_probability/07": lambda: f"{26 * 26 * 10 * 10 * 10:,}",
    "counting_and_probability/08": lambda: f"{float(3 * Fraction(4, 5) ** 2 / 5)}".removeprefix("0"),
    "counting_and_probability/09": lambda: rf"\${float(wheel):.2f}",
    "counting_and_probability/10": lambda: str(sp.Poly((2 * x - 1) ** 6, x).coeff_monomial(x**3)),
    "counting_and_probability/11": lambda: str(paths(avoid=(2, 2))),
    "counting_and_probability/12": lambda: frac(
        Fraction(sum(all(p[i] != i for i in range(5)) for p in itertools.permutations(range(5))), 120)
    ),
    "counting_and_probability/13": lambda: given(
        1 - 2 * sp.integrate(x - sp.Rational(1, 3), (x, sp.Rational(1, 3), 1)) == sp.Rational(5, 9),
        r"\dfrac{5}{9}",
    ),
    "counting_and_probability/14": lambda: str(sum("HH" not in "".join(s) for s in itertools.product("HT", repeat=10))),
}


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_answer_equals_an_independent_computation(name: str) -> None:
    assert CHECKS[name]() == PROBLEMS[f"mini/{name}"].answer


def test_every_problem_has_a_computation() -> None:
    assert {f"mini/{name}" for name in CHECKS} == set(PROBLEMS)


def test_every_subject_has_every_level_at_least_twice() -> None:
    cells = Counter((problem.subject, problem.level) for problem in PROBLEMS.values())
    assert {subject for subject, _ in cells} == SUBJECTS
    assert all(cells[subject, level] >= 2 for subject in SUBJECTS for level in range(1, 6))


def test_every_solution_ends_in_its_boxed_answer_and_has_no_other_box() -> None:
    for problem in PROBLEMS.values():
        assert problem.solution is not None
        assert problem.solution.count(r"\boxed{") == 1
        assert rf"\boxed{{{problem.answer}}}" in problem.solution[-len(problem.answer) - 60 :], problem.id


def test_the_first_seven_problems_have_seven_subjects() -> None:
    assert {problem.subject for problem in list(PROBLEMS.values())[:7]} == SUBJECTS


def test_the_latex_is_balanced() -> None:
    for problem in PROBLEMS.values():
        for text in (problem.problem, problem.solution or "", f"${problem.answer}$"):
            plain = text.replace(r"\$", "")
            assert plain.count("$") % 2 == 0, problem.id
            braces = plain.replace(r"\{", "").replace(r"\}", "")
            assert braces.count("{") == braces.count("}"), problem.id


KINDS = {
    "integer": r"-?\d+",
    "fraction": r"-?\\d?frac\{\d+\}\{\d+\}",
    "short fraction": r"\\frac\d\d",
    "mixed number": r"\d+\\frac.*",
    "decimal": r"\d+\.\d+",
    "decimal without a leading zero": r"\.\d+",
    "surd": r"\d+\\sqrt\{\d+\}",
    "multiple of pi": r"\d+\\pi",
    "sum with pi": r"\d+\+\d+\\pi",
    "expression": r".*x\^2.*\d",
    "degrees": r"\d+\^\\circ",
    "tuple": r"(\\left)?\([^()]*,[^()]*\)",
    "interval": r"[\[(][^,]*,[^,]*[\])]",
    "union": r".*\\cup.*",
    "membership": r"x \\in .*",
    "set": r"\\left\\\{.*",
    "matrix": r"\\begin\{pmatrix\}.*&.*",
    "vector": r"\\begin\{pmatrix\}[^&]*",
    "complex": r".*\di",
    "base": r"\d+_\d",
    "base in braces": r"\d+_\{\d\}",
    "word": r"\\text\{[A-Za-z]+\}",
    "choice": r"\\text\{\([A-E]\)\}",
    "equation": r".*=.*",
    "list": r"-?\d+(, \d+)+",
    "plus-minus": r".*\\pm.*",
    "thousands with thin space": r"\d+(,\\!\d{3})+",
    "thousands with comma": r"\d+(,\d{3})+",
    "currency": r"\\\$\d+",
    "currency with cents": r"\\\$\d+\.\d\d",
    "currency with thousands": r"\\\$\d+,\\!\d+",
    "unit": r".*\\(text|mbox)\{ .*",
    "percent": r"\d+\\%",
}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_of_answer_occurs(kind: str) -> None:
    assert any(re.fullmatch(KINDS[kind], problem.answer) for problem in PROBLEMS.values())
