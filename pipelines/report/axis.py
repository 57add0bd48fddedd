"""Where the marks of an axis stand, and how their numbers are written."""

import math
from dataclasses import dataclass

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
"""Between two marks, times a power of ten."""
LONG = 5000.0
"""A logarithmic range whose ends differ by this factor or less is marked at powers of two, as batch sizes are."""

HUGE = 1e100
"""What is beyond is taken for a fault and not shown."""
TINY = 1e-100
"""What is below is shown as 0."""
ALIKE = 1e-9
"""Values that differ by a smaller share are shown as the same."""


def is_shown(value: float) -> bool:
    """Whether a value is finite, and no absurdity."""
    return abs(value) < HUGE


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of values laid over `length` pixels; with `log`, by their logarithm."""

    low: float
    high: float
    length: float
    log: bool = False

    def place(self, value: float) -> float:
        """Pixels from the lower end."""
        low, high, value = (math.log10(each) if self.log else each for each in (self.low, self.high, value))
        return (value - low) / (high - low) * self.length

    def ticks(self, wanted: int = 5) -> list[float]:
        """About so many round values within the range."""
        if self.log:
            return _powers(self.low, self.high, wanted)
        step = _round_step((self.high - self.low) / max(1, wanted))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]

    def rounded(self, wanted: int = 4) -> "Axis":
        """A linear axis that begins and ends at a mark."""
        step = _round_step((self.high - self.low) / wanted)
        low, high = math.floor(self.low / step + 1e-9) * step, math.ceil(self.high / step - 1e-9) * step
        return Axis(low, high, self.length)


def axis_over(values: list[float], length: float, *, log: bool = False, from_zero: bool = False) -> Axis:
    """The axis that shows all of `values`; 0 to 1 where there are none. With `log`, only positive ones count."""
    known = [value for value in values if is_shown(value) and (value > TINY or not log)]
    if not known:
        return Axis(1.0, 10.0, length, True) if log else Axis(0.0, 1.0, length)
    low, high = min(known), max(known)
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    size = max(abs(low), abs(high))
    if size < TINY and not log:
        return Axis(0.0, 1.0, length)
    if high - low <= ALIKE * size:
        low, high = (low / 2, high * 2) if log else (low - size / 2, high + size / 2)
    return Axis(low, high, length, log)


def number_text(value: float) -> str:
    """Short, for a mark: `0.25`, `1,500`, `20 k`, `3 M`, `1e-5`."""
    size = abs(value)
    if size >= 1e6:
        return f"{value / 1e6:.3g} M" if size < 1e9 else f"{value:.1e}".replace("e+", "e")
    if size >= 1e4:
        return f"{value / 1e3:.4g} k"
    if size >= 1000:
        return f"{value:,.0f}"
    if size and size < 1e-3:
        number, power = f"{value:.2e}".split("e")
        return f"{float(number):g}e{int(power)}"
    return f"{round(value, 6):.4g}"


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in STEPS if step * power >= rough * 0.999)


def _powers(low: float, high: float, wanted: int) -> list[float]:
    """Powers of ten where the range holds many, else of two."""
    for base in (10.0, 2.0) if high / low > LONG else (2.0,):
        first, last = math.ceil(math.log(low, base) - 1e-9), math.floor(math.log(high, base) + 1e-9)
        if last > first:
            stride = max(1, math.ceil((last - first) / wanted))
            return [base**power for power in range(first, last + 1, stride)]
    return [low, high]
