"""The names that the parser knows. What is not listed here is a variable or unreadable."""

from collections.abc import Callable

import sympy
from sympy import Expr, Symbol

from grading import bounds

DEGREE = Symbol("°")  # stays a factor of the result; inside a trigonometric function it becomes pi/180

GREEK_NAMES = (
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho sigma tau upsilon "
    "phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ell triangle"
)
GREEK = set(GREEK_NAMES.split())
ACCENTS = {"vec", "hat", "bar", "tilde", "overline", "overrightarrow", "widehat"}
TRIGONOMETRIC: dict[str, Callable[[Expr], Expr]] = {
    "sin": sympy.sin, "cos": sympy.cos, "tan": sympy.tan, "cot": sympy.cot, "sec": sympy.sec, "csc": sympy.csc,
}  # fmt: skip
INVERSE: dict[str, Callable[[Expr], Expr]] = {
    "sin": sympy.asin, "cos": sympy.acos, "tan": sympy.atan, "cot": sympy.acot, "sec": sympy.asec, "csc": sympy.acsc,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[[Expr], Expr]] = TRIGONOMETRIC | {
    "arcsin": sympy.asin, "arccos": sympy.acos, "arctan": sympy.atan, "asin": sympy.asin, "acos": sympy.acos,
    "atan": sympy.atan, "arccot": sympy.acot, "arcsec": sympy.asec, "arccsc": sympy.acsc,
    "sinh": sympy.sinh, "cosh": sympy.cosh, "tanh": sympy.tanh, "ln": sympy.log, "abs": sympy.Abs,
    "exp": lambda argument: bounds.power(sympy.E, argument),
    "cis": lambda argument: sympy.cos(argument) + sympy.I * sympy.sin(argument),
}  # fmt: skip
OTHER_NAMES = "log lg sqrt cbrt pi inf infty infinity oo gcd lcm max min"
NAMES = set(FUNCTIONS) | set(OTHER_NAMES.split())
WORD_NAMES = sorted(NAMES - {"abs", "inf", "oo", "lg", "max", "min"}, key=len, reverse=True)
APPLIED = set("fgFGPQ")  # letters that name a function when an argument in parentheses touches them
FACTOR_MACROS = GREEK | NAMES | ACCENTS | {"frac", "binom", "dbinom", "tbinom", "lfloor", "lceil", "begin", "imath"}
FACTOR_MACROS |= {"sum", "prod", "int"}
PRODUCTS = {"cdot", "times", "cdotp", "ast"}
DELIMITERS = {"(": ")", "[": "]", "{": "}", "\\{": "\\}"}
COUNTING = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
NUMBER_WORDS = {name: value for value, name in enumerate(COUNTING.split())}
