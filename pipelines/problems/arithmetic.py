"""Arithmetic problems made from a seed, with exact answers and worked solutions.

Whether a problem belongs to the train or the test split is a property of its expression alone (a hash), so the two
splits share nothing, whatever the seeds and counts.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import count as count_up
from itertools import cycle, islice
from math import gcd
from typing import Literal

from pipelines.problems.draws import Draws
from pipelines.problems.error import ProblemError
from pipelines.problems.expression import Expression, Number, Operation, latex, steps
from pipelines.problems.problem import Problem

Exhausted = Literal["refuse", "skip"]

SPLITS = ("train", "test")
TEST_SHARE = 5  # one expression in five is for testing
PATIENCE = 2000  # draws in a row without a new problem before a level counts as exhausted
WORDINGS = ("Compute ${}.$", "Evaluate ${}.$", "What is the value of ${}$?", "Find the value of ${}.$")
LOWEST_TERMS = " Write the answer as a whole number or as a fraction in lowest terms."


def arithmetic_problems(
    count: int,
    seed: int = 0,
    split: str = "train",
    levels: Sequence[int] = (1, 2, 3, 4, 5),
    exhausted: Exhausted = "refuse",
) -> list[Problem]:
    """`count` different problems, their levels taken in turn from `levels`, where one may stand several times.

    1: sums and differences of one-digit numbers; 2: of two-digit numbers, and small products; 3: larger products,
    exact divisions, three terms; 4: two or three operations with precedence or parentheses; 5: several operations with
    parentheses and exact divisions, or fractions. More problems of the same seed start with the fewer ones. The id of
    a problem depends on its text alone. The easy levels hold few: about 1,200 problems to train on at level 1, and
    10,000 at level 2. `exhausted` says what becomes of a level that runs out: "refuse" it, or "skip" its turns.

    Raises `ProblemError` for a bad argument, and when `levels` do not hold `count` different problems.
    """
    _check(count, split, levels)
    problems: list[Problem] = []
    seen: set[str] = set()
    streams = {level: _expressions(seed, level) for level in levels}
    turns = cycle(levels)
    while len(problems) < count:
        level = next(turns)
        if level not in streams:
            continue
        problem = _next_new(streams[level], level, split, seen)
        if problem is not None:
            problems.append(problem)
        elif exhausted == "refuse" or len(streams) == 1:
            raise _ran_out(problems, level, split, count)
        else:
            del streams[level]
    return problems


def split_of(expression: str) -> str:
    """ "train" or "test", from the LaTeX of an expression."""
    digest = hashlib.sha256(f"arithmetic split\n{expression}".encode()).digest()
    return "test" if int.from_bytes(digest[:8], "big") % TEST_SHARE == 0 else "train"


def _ran_out(problems: Sequence[Problem], level: int, split: str, count: int) -> ProblemError:
    made = sum(each.level == level for each in problems)
    message = (
        f"level {level} of the {split} split ran out after {made} different problems, of {count} asked for in "
        f"all; lower the count, leave out level {level}, or let its turns be skipped (data.exhausted=skip)"
    )
    return ProblemError("builtin:arithmetic cannot make so many different problems:", [message])


def _check(count: int, split: str, levels: Sequence[int]) -> None:
    messages = []
    if count < 1:
        messages.append(f"count is {count}; it must be at least 1")
    if split not in SPLITS:
        messages.append(f"split is {split!r}; it must be 'train' or 'test'")
    if not levels:
        messages.append("levels are empty; name at least one from 1 to 5")
    messages += [f"level {level!r} does not exist; levels run from 1 to 5" for level in levels if level not in MAKERS]
    if messages:
        raise ProblemError("builtin:arithmetic cannot make these problems:", messages)


def _expressions(seed: int, level: int) -> Iterator[tuple[Expression, Draws]]:
    for attempt in count_up():
        draws = Draws(f"arithmetic/{seed}/{level}/{attempt}")
        yield draws.pick(MAKERS[level])(draws), draws


def _next_new(stream: Iterator[tuple[Expression, Draws]], level: int, split: str, seen: set[str]) -> Problem | None:
    for expression, draws in islice(stream, PATIENCE):
        text = latex(expression)
        if text not in seen and split_of(text) == split:
            seen.add(text)
            return _problem(expression, text, level, split, draws)
    return None


def _problem(expression: Expression, text: str, level: int, split: str, draws: Draws) -> Problem:
    chain = [latex(step) for step in steps(expression)]
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    working = "\n".join(f"= {step}" for step in chain[1:])
    return Problem(
        id=f"arithmetic/{split}/{level}/{digest}",
        problem=draws.pick(WORDINGS).replace("{}", text) + (LOWEST_TERMS if r"\frac" in text else ""),
        answer=chain[-1],
        subject="Arithmetic",
        level=level,
        solution=f"We work it out one step at a time:\n\\[{text}\n{working}\\]\nThe answer is $\\boxed{{{chain[-1]}}}.$",
    )


def _one_digit_pair(draws: Draws) -> Expression:
    left, right = draws.integer(1, 9), draws.integer(1, 9)
    if draws.integer(0, 1):
        return _operation("+", left, right)
    return _operation("-", max(left, right), min(left, right))


def _one_digit_triple(draws: Draws) -> Expression:
    left, middle = draws.integer(1, 9), draws.integer(1, 9)
    if draws.integer(0, 1):
        return _operation("+", _operation("+", left, middle), draws.integer(1, 9))
    return _operation("-", _operation("+", left, middle), draws.integer(1, min(9, left + middle)))


def _two_digit_pair(draws: Draws) -> Expression:
    left, right = draws.integer(10, 99), draws.integer(10, 99)
    if draws.integer(0, 1):
        return _operation("+", left, right)
    return _operation("-", max(left, right), min(left, right))


def _times_table(draws: Draws) -> Expression:
    return _operation("*", draws.integer(2, 9), draws.integer(2, 9))


def _long_product(draws: Draws) -> Expression:
    return _operation("*", draws.integer(11, 99), draws.integer(3, 9))


def _exact_division(draws: Draws) -> Expression:
    divisor = draws.integer(2, 12)
    return _operation("/", divisor * draws.integer(3, 60), divisor)


def _two_digit_triple(draws: Draws) -> Expression:
    left, middle, right = draws.integer(10, 99), draws.integer(10, 99), draws.integer(10, 99)
    if draws.integer(0, 1):
        return _operation("-", _operation("+", left, middle), min(right, left + middle))
    return _operation("+", _operation("-", max(left, middle), min(left, middle)), right)


def _product_and_term(draws: Draws) -> Expression:
    product = _operation("*", draws.integer(3, 12), draws.integer(3, 12))
    if draws.integer(0, 1):
        return _operation(draws.pick("+-"), product, draws.integer(2, 60))
    return _operation(draws.pick("+-"), draws.integer(2, 150), product)


def _bracket_times(draws: Draws) -> Expression:
    bracket = _operation(draws.pick("+-"), draws.integer(5, 40), draws.integer(2, 20))
    factor = draws.integer(2, 9)
    return _operation("*", factor, bracket) if draws.integer(0, 1) else _operation("*", bracket, factor)


def _two_products(draws: Draws) -> Expression:
    left = _operation("*", draws.integer(2, 12), draws.integer(2, 12))
    return _operation(draws.pick("+-"), left, _operation("*", draws.integer(2, 12), draws.integer(2, 12)))


def _quotient_and_term(draws: Draws) -> Expression:
    return _operation(draws.pick("+-"), draws.integer(2, 90), _exact_division(draws))


def _divided_bracket(draws: Draws) -> Expression:
    """(a ± b) ÷ c ± d × e with an exact division."""
    divisor, quotient, part = draws.integer(2, 9), draws.integer(2, 20), draws.integer(2, 40)
    whole = divisor * quotient
    if draws.integer(0, 1):
        bracket = _operation("-", whole + part, part)
    else:
        bracket = _operation("+", part, whole - part) if part < whole else _operation("-", whole + part, part)
    product = _operation("*", draws.integer(2, 12), draws.integer(2, 12))
    return _operation(draws.pick("+-"), _operation("/", bracket, divisor), product)


def _nested_brackets(draws: Draws) -> Expression:
    """a × (b ± c × (d ± e)) ± f."""
    inner = _operation(draws.pick("+-"), draws.integer(2, 15), draws.integer(2, 12))
    middle = _operation(draws.pick("+-"), draws.integer(2, 30), _operation("*", draws.integer(2, 6), inner))
    return _operation(draws.pick("+-"), _operation("*", draws.integer(2, 6), middle), draws.integer(2, 60))


def _two_brackets(draws: Draws) -> Expression:
    """(a ± b) × (c ± d) ± e ÷ f with an exact division."""
    left = _operation(draws.pick("+-"), draws.integer(2, 25), draws.integer(2, 15))
    right = _operation(draws.pick("+-"), draws.integer(2, 12), draws.integer(2, 12))
    return _operation(draws.pick("+-"), _operation("*", left, right), _exact_division(draws))


def _fractions(draws: Draws) -> Expression:
    """A sum, product or quotient of two fractions, sometimes with a whole number added or multiplied."""
    pair = _operation(draws.pick("+-*/"), _fraction(draws), _fraction(draws))
    if draws.integer(0, 1):
        return pair
    return _operation(draws.pick("+-*"), draws.integer(2, 9), pair)


def _fraction(draws: Draws) -> Number:
    denominator = draws.integer(2, 12)
    numerators = [each for each in range(1, denominator + 4) if gcd(each, denominator) == 1]
    return Number(draws.pick(numerators), denominator)


def _operation(sign: str, left: Expression | int, right: Expression | int) -> Operation:
    return Operation(sign, _expression(left), _expression(right))


def _expression(value: Expression | int) -> Expression:
    return Number(value) if isinstance(value, int) else value


MAKERS: dict[int, tuple[Callable[[Draws], Expression], ...]] = {
    1: (_one_digit_pair, _one_digit_triple),
    2: (_two_digit_pair, _times_table),
    3: (_long_product, _exact_division, _two_digit_triple),
    4: (_product_and_term, _bracket_times, _two_products, _quotient_and_term),
    5: (_divided_bracket, _nested_brackets, _two_brackets, _fractions),
}
