"""A recursive-descent parser from tokens to sympy expressions.

Only the constructors named in this file are ever called: no text reaches `eval`, `sympify` or `parse_expr`. Nesting is
limited, and everything that could grow goes through `bounds`.
"""

from collections.abc import Sequence

import sympy
from sympy import Expr, Integer, Matrix, Symbol

from grading import bounds
from grading.chosen import parse_chosen, parse_left_script
from grading.cursor import Cursor
from grading.decimals import endless_block, repeating
from grading.matrices import parse_matrix
from grading.mixed import parse_mixed_number
from grading.series import OPERATORS as SERIES
from grading.series import parse_series
from grading.tokens import Kind, Token
from grading.unreadable import Unreadable
from grading.vocabulary import (
    ACCENTS,
    APPLIED,
    DEGREE,
    DELIMITERS,
    FACTOR_MACROS,
    FUNCTIONS,
    GREEK,
    INVERSE,
    NAMES,
    PRODUCTS,
    TRIGONOMETRIC,
    WORD_NAMES,
)

MAX_DEPTH = 40
MAX_SYMBOLS = 20


class Parser(Cursor):
    """Reads one expression from a slice of tokens; `branch` chooses the upper (+1) or lower (-1) sign of `\\pm`."""

    def __init__(self, tokens: Sequence[Token], branch: int = 1) -> None:
        super().__init__(tokens)
        self.branch = branch
        self.depth = 0
        self.open_bars = 0
        self.bound: dict[str, Expr] = {}  # variables of sums and integrals around the place that is read

    def parse(self) -> Expr | Matrix:
        """The whole slice as one expression. Raises `Unreadable` if it is not exactly that."""
        try:
            value = self.sum()
            if self.position < len(self.tokens):
                raise Unreadable("unexpected symbol")
            if isinstance(value, Expr) and len(value.free_symbols) > MAX_SYMBOLS:
                raise Unreadable("too many variables")
        except (sympy.SympifyError, sympy.matrices.exceptions.MatrixError, TypeError, ZeroDivisionError) as fault:
            raise Unreadable("no meaning") from fault
        return value

    def nested(self, tokens: Sequence[Token]) -> Expr:
        """A slice of tokens as an expression inside the one that is read, with its bindings and nesting."""
        inner = Parser(tokens, self.branch)
        inner.depth, inner.bound = self.depth, self.bound
        return scalar(inner.parse())

    def descend(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("nested too deeply")

    def sum(self) -> Expr | Matrix:
        self.descend()
        total = self.signed_term()
        while True:
            if self.take_symbol("+"):
                total = total + self.signed_term()
            elif self.take_symbol("-"):
                total = total - self.signed_term()
            elif self.take_macro("pm"):
                total = total + self.branch * self.signed_term()
            elif self.take_macro("mp"):
                total = total - self.branch * self.signed_term()
            else:
                break
        if self.take_macro("choose"):
            total = bounds.binomial(scalar(total), scalar(self.sum()))
        elif self.take_macro("over"):
            total = bounds.quotient(scalar(total), scalar(self.sum()))
        self.depth -= 1
        return bounds.defined(total) if isinstance(total, Expr) else total

    def signed_term(self) -> Expr | Matrix:
        sign = 1
        while True:
            if self.take_symbol("-"):
                sign = -sign
            elif self.take_macro("pm"):
                sign *= self.branch
            elif self.take_macro("mp"):
                sign *= -self.branch
            elif not self.take_symbol("+"):
                break
        return sign * self.product()

    def product(self) -> Expr | Matrix:
        value: Expr | Matrix | None = parse_mixed_number(self)
        if value is None:
            value = self.factor()
        while (token := self.peek()) is not None:
            if token.is_symbol("*") or token.is_macro(*PRODUCTS):
                self.position += 1
                value = value * self.signed_factor()
            elif token.is_symbol("/") or token.is_macro("div"):
                self.position += 1
                value = bounds.quotient(value, self.signed_factor())
            elif self.starts_factor(token):
                if token.kind is Kind.NUMBER and self.tokens[self.position - 1].kind is Kind.NUMBER:
                    raise Unreadable("two numbers without a sign between them")
                value = value * self.factor()
            else:
                break
        return value

    def signed_factor(self) -> Expr | Matrix:
        sign = 1
        while self.take_symbol("-", "+"):
            sign = -sign if self.tokens[self.position - 1].text == "-" else sign
        return sign * self.factor()

    def starts_factor(self, token: Token) -> bool:
        if token.kind in {Kind.NUMBER, Kind.WORD}:
            return True
        if token.kind is Kind.MACRO:
            return token.text in FACTOR_MACROS
        return token.is_symbol("(", "[", "{") or (token.is_symbol("|") and self.open_bars == 0)

    def factor(self) -> Expr | Matrix:
        """An atom with its postfix signs: exponents, factorials, degree signs."""
        self.descend()
        value = self.atom()
        while True:
            if self.take_symbol("^"):
                if self.take_degree():
                    value = value * DEGREE
                elif isinstance(value, Expr):
                    value = bounds.power(value, self.exponent())
                else:
                    raise Unreadable("power of a matrix")
            elif self.take_symbol("!"):
                following = self.peek()
                if following is not None and following.is_symbol("!"):
                    raise Unreadable("double factorial")
                value = bounds.factorial(value)
            elif self.take_macro("circ", "degree"):
                value = value * DEGREE
            else:
                break
        self.depth -= 1
        return value

    def take_degree(self) -> bool:
        if self.take_macro("circ", "degree"):
            return True
        token, inner, closing = self.peek(), self.peek(1), self.peek(2)
        if token and token.is_symbol("{") and inner and inner.is_macro("circ") and closing and closing.is_symbol("}"):
            self.position += 3
            return True
        return False

    def exponent(self) -> Expr:
        sign = 1
        while self.take_symbol("-", "+"):
            sign = -sign if self.tokens[self.position - 1].text == "-" else sign
        value = sign * self.atom()
        if self.take_symbol("^"):  # 2^3^4 is no LaTeX, but typed text means the tower
            value = bounds.power(value, self.exponent())
        return scalar(value)

    def group(self, closing: str) -> Expr | Matrix:
        bars, self.open_bars = self.open_bars, 0
        value = self.sum()
        self.open_bars = bars
        self.expect(closing)
        return value

    def argument(self, single_digit: bool = False) -> Expr:
        """A macro's argument: braces, or the next token. `\\frac43` takes one digit at a time."""
        token = self.peek()
        if token is None:
            raise Unreadable("missing argument")
        if token.kind is Kind.NUMBER and single_digit and len(token.text) > 1:
            if not token.text.isdigit():
                raise Unreadable("missing braces")
            self.position += 1
            self.push_back(Kind.NUMBER, token.text[1:])
            return Integer(int(token.text[0]))
        if token.kind is Kind.WORD and len(token.text) > 1 and token.text not in NAMES:
            self.position += 1
            self.push_back(Kind.WORD, token.text[1:])
            return letter(token.text[0])
        return scalar(self.atom())

    def atom(self) -> Expr | Matrix:
        self.descend()
        token = self.peek()
        if token is None:
            raise Unreadable("missing operand")
        self.position += 1
        if token.kind is Kind.NUMBER:
            value: Expr | Matrix = self.decimal(token)
        elif token.kind is Kind.WORD:
            value = self.word(token)
        elif token.kind is Kind.MACRO:
            value = self.macro(token.text)
        elif token.is_symbol("{") and self.take_symbol("}"):  # `{}_8C_3`: an empty group carries a left script
            value = self.atom()
        elif token.is_symbol("(", "[", "{"):
            value = self.group(DELIMITERS[token.text])
        elif token.is_symbol("_", "^"):
            value = parse_left_script(self)
        elif token.is_symbol("|"):
            self.open_bars += 1
            value = sympy.Abs(scalar(self.sum()))
            self.open_bars -= 1
            self.expect("|")
        else:
            raise Unreadable("unexpected symbol")
        self.depth -= 1
        return value

    def decimal(self, token: Token) -> Expr:
        """A number, with the digits under `\\overline` or before an ellipsis repeated for ever."""
        following = self.peek()
        if "." in token.text and following is not None and following.is_macro("ldots", "dots", "cdots"):
            self.position += 1
            return repeating(token.text, endless_block(token.text.partition(".")[2]))
        return bounds.number(token.text)

    def word(self, token: Token) -> Expr | Matrix:
        """Plain letters: a function or constant name, or variables side by side, read one at a time."""
        name = next((name for name in WORD_NAMES if token.text.startswith(name)), "")
        if token.text in {"abs", "inf", "oo"}:
            name = token.text
        if not name and len(token.text) > 3 and not token.text.isupper():
            raise Unreadable("words")
        taken = name or token.text[0]
        if len(taken) < len(token.text):
            self.push_back(Kind.WORD, token.text[len(taken) :])
        if name:
            return self.named(name)
        chosen = parse_chosen(self, taken)
        if chosen is not None:
            return chosen
        following = self.peek()
        if taken in APPLIED and following is not None and following.is_symbol("(") and not following.gap:
            self.position += 1
            return sympy.Function(taken)(*self.arguments())
        return self.variable(taken)

    def arguments(self) -> list[Expr]:
        values = [scalar(self.sum())]
        while self.take_symbol(","):
            values.append(scalar(self.sum()))
        self.expect(")")
        return values

    def variable(self, name: str) -> Expr:
        """A letter with its subscript and primes, which belong to the name."""
        full = name
        if self.take_symbol("_"):
            full += "_" + self.subscript()
        while self.take_symbol("'"):
            full += "'"
        return self.bound.get(full) or letter(full)

    def subscript(self) -> str:
        if not self.take_symbol("{"):
            token = self.peek()
            if token is None or token.kind is Kind.SYMBOL:
                raise Unreadable("missing subscript")
            self.position += 1
            return token.text
        name = ""
        while (token := self.peek()) is not None and not token.is_symbol("}"):
            if token.is_symbol("{", "_"):
                raise Unreadable("nested subscript")
            name += token.text
            self.position += 1
        self.expect("}")
        return name

    def macro(self, name: str) -> Expr | Matrix:
        if name == "frac":
            numerator = self.argument(single_digit=True)
            return bounds.quotient(numerator, self.argument(single_digit=True))
        if name in {"binom", "dbinom", "tbinom"}:
            upper = self.argument(single_digit=True)
            return bounds.binomial(upper, self.argument(single_digit=True))
        if name in {"lfloor", "lceil"}:
            inner = scalar(self.sum())
            if not self.take_macro("rfloor" if name == "lfloor" else "rceil"):
                raise Unreadable("unbalanced brackets")
            return sympy.floor(inner) if name == "lfloor" else sympy.ceiling(inner)
        if name in SERIES:
            return parse_series(self, name)
        if name == "begin":
            return parse_matrix(self, lambda: scalar(self.sum()))
        if name in ACCENTS:
            return Symbol(name + "_" + self.subscript())
        if name in GREEK:
            return self.variable(name)
        if name in NAMES:
            return self.named(name)
        if name == "imath":
            return sympy.I
        raise Unreadable("unknown macro")

    def named(self, name: str) -> Expr:
        """A constant, a root, a logarithm or another function with its argument."""
        if name == "pi":
            return sympy.pi
        if name in {"inf", "infty", "infinity", "oo"}:
            return sympy.oo
        if name in {"gcd", "lcm", "max", "min", "lg"}:
            raise Unreadable("unknown macro")
        if name in {"sqrt", "cbrt"}:
            index: Expr = Integer(3) if name == "cbrt" else Integer(2)
            if self.take_symbol("["):
                index = scalar(self.group("]"))
            return bounds.root(self.argument(), index)
        if name == "log":
            return self.logarithm()
        function = FUNCTIONS[name]
        exponent = self.exponent() if self.take_symbol("^") else Integer(1)
        if exponent == -1 and name in INVERSE:
            function, exponent = INVERSE[name], Integer(1)
        operand = self.operand()
        if name in TRIGONOMETRIC or name == "cis":
            operand = operand.subs(DEGREE, sympy.pi / 180)
        return bounds.power(bounds.defined(function(operand)), exponent)

    def logarithm(self) -> Expr:
        """`\\log` without a base is the common logarithm, as in the competitions these answers come from."""
        base: Expr = Integer(10)
        if self.take_symbol("_"):
            base = self.argument(single_digit=True)
        operand = self.operand()
        if operand.is_zero or base in (0, 1):
            raise Unreadable("undefined value")
        return bounds.defined(sympy.log(operand) / sympy.log(base))

    def operand(self) -> Expr:
        """A function's argument without parentheses: `\\sin 2x` takes the product, up to the next function."""
        token = self.peek()
        if token is None:
            raise Unreadable("missing argument")
        if token.is_symbol("(", "[", "{", "|"):
            return scalar(self.atom())  # `sin(x)^2` is the square of the sine
        sign = -1 if self.take_symbol("-") else 1
        value = scalar(self.factor())
        while (token := self.peek()) is not None and self.starts_factor(token):
            if token.text in FUNCTIONS or token.text in {"log", "begin"} or token.is_symbol("(", "["):
                break
            value = value * scalar(self.factor())
        slash, below = self.peek(), self.peek(1)
        if slash and slash.is_symbol("/") and not slash.gap and below and below.kind is Kind.NUMBER:
            self.position += 1  # `\sin \pi/6`, but not `\cos x/\sin x`
            value = bounds.quotient(value, scalar(self.atom()))
        return sign * value


def letter(name: str) -> Expr:
    """Lower-case `e` and `i` are the constants; every other name is a variable, and capitals are their own."""
    return {"e": sympy.E, "i": sympy.I}.get(name) or Symbol(name)


def scalar(value: Expr | Matrix) -> Expr:
    """`value` if it is a single expression; a matrix has no place in an exponent, an entry or an argument."""
    if not isinstance(value, Expr):
        raise Unreadable("matrix inside an expression")
    return value
