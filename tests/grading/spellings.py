"""Values that know many of their spellings, for properties that hold whatever the spelling.

A family turns a few integers into a value; `key` decides whether two values of a family are the same, without the grader.
Everything random comes from the generator that is passed in.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, isqrt
from random import Random


@dataclass(frozen=True)
class Value:
    family: str
    numbers: tuple[int, ...]
    key: Hashable
    spell: Callable[[Random], str]


Family = Callable[..., tuple[Hashable, Callable[[Random], str]]]


def whole(number: int, rng: Random) -> str:
    spellings = [str(number), str(number)]
    if abs(number) >= 1000:
        spellings += [f"{number:,}", f"{number:,}".replace(",", "{,}"), f"{number:,}".replace(",", r",\!")]
    if 0 < number < 100:
        spellings += [f"{number}.0", f"+{number}", rf"\frac{{{number * 3}}}{{3}}"]
    return rng.choice(spellings)


def fraction(value: Fraction, rng: Random) -> str:
    p, q = value.numerator, value.denominator
    if q == 1:
        return whole(p, rng)
    sign, p, times = "-" if p < 0 else "", abs(p), rng.choice([1, 1, 2, 7])
    macro = rng.choice([r"\frac", r"\dfrac", r"\tfrac"])
    spellings = [
        f"{sign}{macro}{{{p * times}}}{{{q * times}}}",
        f"{sign}{p * times}/{q * times}",
        f"{macro}{{{sign}{p}}}{{{q}}}",
        f"{sign}{macro} {{{p}}} {{ {q} }}",
        f"({sign}{p})/{q}",
    ]
    if p < 10 and q < 10:
        spellings.append(rf"{sign}\frac{p}{q}")
    if p > q:
        spellings += [rf"{sign}{p // q}\frac{{{p % q}}}{{{q}}}", f"{sign}{p // q} {p % q}/{q}"]
    if 10**6 % q == 0:
        decimal = f"{p * (10**6 // q) // 10**6}.{p * (10**6 // q) % 10**6:06d}".rstrip("0")
        spellings += [sign + decimal, sign + decimal + "0", sign + decimal.lstrip("0")]
        spellings.append(rf"{sign}{p * 10**6 // q} \times 10^{{-6}}")
    return rng.choice(spellings)


def rational(p: int, q: int) -> tuple[Hashable, Callable[[Random], str]]:
    value = Fraction(p, abs(q) + 1)
    return value, lambda rng: fraction(value, rng)


def large(p: int, q: int) -> tuple[Hashable, Callable[[Random], str]]:
    number = p * 10_007 + q
    return number, lambda rng: whole(number, rng)


def root(radicand: int, rng: Random) -> str:
    return rng.choice([rf"\sqrt{{{radicand}}}", f"{radicand}^{{1/2}}", f"sqrt({radicand})", rf"{radicand}^{{\frac12}}"])


def surd(a: int, b: int, n: int) -> tuple[Hashable, Callable[[Random], str]]:
    """a + b sqrt(n)"""
    n, b = abs(n) + 2, b or 1
    square = next(k for k in range(isqrt(n), 0, -1) if n % (k * k) == 0)
    free = n // square**2
    key = (a + b * square, 0) if free == 1 else (a, b * square, free)

    def spell(rng: Random) -> str:
        form = rng.randrange(3)
        if form == 0:
            radical = root(n, rng)
            term = (
                f"{abs(b)}{rng.choice([' * ', chr(92) + 'cdot '] if radical[0].isdigit() else ['', ' ', '*'])}{radical}"
            )
        elif form == 1:
            term = root(b * b * n, rng)
        else:
            term = rf"\frac{{{abs(b) * n}}}{{\sqrt{{{n}}}}}"
        if a == 0:
            return ("-" if b < 0 else "") + term
        sign = "-" if b < 0 else "+"
        return rng.choice([f"{a} {sign} {term}", f"{'-' if b < 0 else ''}{term} {a:+d}"])

    return key, spell


def polynomial(a: int, b: int, c: int) -> tuple[Hashable, Callable[[Random], str]]:
    """a x^2 + b x + c"""
    a = a or 1

    def term(coefficient: int, power: str, rng: Random) -> str:
        if not power:
            return f"{coefficient:+d}"
        times = rng.choice(["", " ", "*", r"\cdot "])
        shown = f"{coefficient:+d}{times}" if abs(coefficient) != 1 else "+-"[coefficient < 0]
        return shown + power

    def spell(rng: Random) -> str:
        if rng.random() < 0.2:
            return f"(x)({a}x{b:+d}){c:+d}"
        square = rng.choice(["x^2", "x^{2}", "x²", "x x", "x**2"])
        terms = [term(a, square, rng)] + [term(k, power, rng) for k, power in ((b, "x"), (c, "")) if k]
        rng.shuffle(terms)
        return rng.choice(["", " "]).join(terms).lstrip("+")

    return (a, b, c), spell


def point(a: int, b: int, c: int) -> tuple[Hashable, Callable[[Random], str]]:
    values = (Fraction(a, 2), Fraction(b), Fraction(c, 3))

    def spell(rng: Random) -> str:
        inside = rng.choice([",", ", ", " , "]).join(
            fraction(value, rng).replace("{,}", "").replace(r",\!", "") for value in values
        )
        return rng.choice(
            [f"({inside})", rf"\left({inside}\right)", f"(x,y,z) = ({inside})", rf"\left( {inside} \right)"]
        )

    return values, spell


def values(a: int, b: int, c: int) -> tuple[Hashable, Callable[[Random], str]]:
    """A set of values, or a list."""
    items = sorted({Fraction(a), Fraction(b, 2), Fraction(c)})

    def spell(rng: Random) -> str:
        shuffled = rng.sample(items, len(items))
        spelled = [fraction(item, rng).replace(",", "") for item in shuffled]
        inside = ", ".join(spelled)
        forms = [rf"\{{{inside}\}}", rf"\left\{{{inside}\right\}}"]
        if len(items) > 1:
            forms += [inside, ", ".join(spelled[:-1]) + rf" \text{{ and }} {spelled[-1]}", f"x = {inside}"]
            forms.append(r" \text{ or } ".join(f"x = {item}" for item in spelled))
        return rng.choice(forms)

    return tuple(items), spell


def interval(a: int, b: int, ends: int) -> tuple[Hashable, Callable[[Random], str]]:
    low, high = sorted((Fraction(a, 2), Fraction(b, 2)))
    high += 1 if low == high else 0
    left, right = ends % 2 == 0, ends // 2 % 2 == 0

    def spell(rng: Random) -> str:
        first, second = fraction(low, rng), fraction(high, rng)
        forms = [f"{'[' if left else '('}{first}, {second}{']' if right else ')'}"]
        forms.append(f"x \\in {forms[0]}")
        less = [r"\le " if closed else "<" for closed in (left, right)]
        more = [r"\ge " if closed else ">" for closed in (right, left)]
        forms += [f"{first} {less[0]} x {less[1]} {second}", f"{second} {more[0]} x {more[1]} {first}"]
        return rng.choice(forms)

    return (low, high, left, right), spell


def matrix(a: int, b: int, c: int, d: int) -> tuple[Hashable, Callable[[Random], str]]:
    entries = (Fraction(a), Fraction(b, 2), Fraction(c), Fraction(d, 3))

    def spell(rng: Random) -> str:
        environment = rng.choice(["pmatrix", "bmatrix"])
        first, second, third, fourth = (fraction(entry, rng) for entry in entries)
        gap = rng.choice(["", " "])
        return rf"\begin{{{environment}}}{gap}{first} &{gap}{second} \\ {third}{gap}& {fourth}\end{{{environment}}}"

    return entries, spell


def complex_number(a: int, b: int) -> tuple[Hashable, Callable[[Random], str]]:
    a, b = a or 1, b or 1

    def spell(rng: Random) -> str:
        imaginary = (
            f"{'-' if b < 0 else ''}{abs(b) if abs(b) != 1 else ''}{rng.choice(['', ' ']) if abs(b) != 1 else ''}i"
        )
        if rng.random() < 0.5:
            return f"{imaginary}{a:+d}"
        return f"{a}{imaginary if b < 0 else '+' + imaginary}"

    return (a, b), spell


def angle(a: int, b: int) -> tuple[Hashable, Callable[[Random], str]]:
    """A multiple of pi."""
    value = Fraction(a or 1, abs(b) + 1)

    def spell(rng: Random) -> str:
        p, q, sign = abs(value.numerator), value.denominator, "-" if value < 0 else ""
        pi = rng.choice([r"\pi", "π", " pi"])
        times = "" if p == 1 else str(p)
        forms = [f"{sign}{times}{pi}"] if q == 1 else [
            rf"{sign}\frac{{{times}{pi}}}{{{q}}}", rf"{sign}\frac{{{p}}}{{{q}}}{pi}", f"{sign}{times}{pi}/{q}",
        ]  # fmt: skip
        return rng.choice(forms)

    return value, spell


def line(a: int, b: int, c: int) -> tuple[Hashable, Callable[[Random], str]]:
    """a x + b y = c, up to a factor"""
    a, b = a or 1, b or 1
    divisor = gcd(a, b, c) * (1 if a > 0 else -1)

    def spell(rng: Random) -> str:
        k = rng.choice([1, 1, -1, 2, 3])
        forms = [
            f"{k * a}x {k * b:+d}y = {k * c}",
            f"{k * a}x {k * b:+d}y {-k * c:+d} = 0",
            f"{k * b}y = {k * c} {-k * a:+d}x",
            f"{k * c} = {k * b}y {k * a:+d}x",
        ]
        return rng.choice(forms)

    return (a // divisor, b // divisor, c // divisor), spell


def amount(a: int, unit: int) -> tuple[Hashable, Callable[[Random], str]]:
    """A number with a unit, which may be left out."""
    number = abs(a) + 2
    signs = [
        (rf"{number}^\circ", f"{number}°", rf"{number} \text{{ degrees}}", str(number)),
        (rf"\${number}", rf"{number}\text{{ dollars}}", f"${number}", rf"\${number}.00"),
        (rf"{number}\text{{ cm}}", f"{number} cm", rf"{number}\ \mathrm{{cm}}", str(number)),
        (rf"{number}\text{{ square feet}}", rf"{number}\text{{ ft}}^2", rf"{number}\text{{ ft}}^{{2}}", str(number)),
        (rf"{number}\text{{ hours}}", f"{number} hours", rf"{number} \text{{ hrs}}", str(number)),
    ][unit % 5]
    return number, lambda rng: rng.choice(signs)


def numeral(a: int, base: int) -> tuple[Hashable, Callable[[Random], str]]:
    base, number, digits = 2 + abs(base) % 8, abs(a) + 2, ""
    rest = number
    while rest:
        rest, digit = divmod(rest, base)
        digits = str(digit) + digits
    return (digits, base), lambda rng: rng.choice(
        [f"{digits}_{base}", f"{digits}_{{{base}}}", f"({digits})_{{{base}}}"]
    )


def conjugates(a: int, n: int) -> tuple[Hashable, Callable[[Random], str]]:
    """a plus or minus the root of a number that is no square."""
    n = abs(n) + 2
    n += isqrt(n) ** 2 == n
    forms = (
        rf"{a} \pm \sqrt{{{n}}}", rf"{a}+\sqrt{{{n}}}, {a}-\sqrt{{{n}}}", rf"\{{{a}-\sqrt{{{n}}}, {a}+\sqrt{{{n}}}\}}",
        rf"x = {a} \pm \sqrt{{{n}}}", rf"{a}-\sqrt{{{n}}} \text{{ and }} {a}+\sqrt{{{n}}}",
    )  # fmt: skip
    return (a, n), lambda rng: rng.choice(forms)


FAMILIES: dict[str, tuple[Family, int]] = {
    "rational": (rational, 2), "large": (large, 2), "surd": (surd, 3), "polynomial": (polynomial, 3), "point": (point, 3),
    "values": (values, 3), "interval": (interval, 3), "matrix": (matrix, 4), "complex": (complex_number, 2),
    "angle": (angle, 2), "line": (line, 3), "amount": (amount, 2), "numeral": (numeral, 2), "conjugates": (conjugates, 2),
}  # fmt: skip
WRAPPINGS = ("{}", "{}", "{}", "${}$", r"\boxed{{{}}}", "{}.", " {} ", r"\({}\)", r"\displaystyle {}", "**{}**")


def build(family: str, numbers: tuple[int, ...]) -> Value:
    key, spell = FAMILIES[family][0](*numbers)
    return Value(family, numbers, key, spell)


def random_value(rng: Random) -> Value:
    family = rng.choice(sorted(FAMILIES))
    return build(family, tuple(rng.randint(-12, 12) for _ in range(FAMILIES[family][1])))


def changed(value: Value, rng: Random) -> Value:
    """Another value of the same family, as near to `value` as one number allows."""
    while True:
        numbers = list(value.numbers)
        place = rng.randrange(len(numbers))
        numbers[place] = rng.choice([numbers[place] + 1, numbers[place] - 1, -numbers[place], rng.randint(-12, 12)])
        if rng.random() < 0.2:
            rng.shuffle(numbers)
        other = build(value.family, tuple(numbers))
        if other.key != value.key:
            return other


def wrapped(text: str, rng: Random) -> str:
    wrapping = rng.choice(WRAPPINGS)
    return text if "*" in wrapping and "*" in text else wrapping.format(text)
