"""From the parts of a sample to what the whole work would take, with the uncertainty of that.

A part (a chunk) has tokens x and seconds s. The rate is the ratio estimator Σx / Σs, whose relative variance is
n / (n - 1) · Σ (x - r s)² / (Σ x)² over n parts (Cochran, Sampling Techniques, 1977, chapter 6). Intervals are of Student's
t at 95 % on a logarithmic scale. Where there are three rounds or more, the interval from the rounds' own rates, which see
what changes slowly on a machine, counts if it is the wider one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

CONFIDENCE = 0.95

Chunk = tuple[int, float, bool]
"""(tokens, seconds, whether requests still waited at its end)."""

ROUNDS_FOR_SPREAD = 3

END_ERROR = 0.5
"""What the end of a run costs is known to so much of itself, where fewer rounds saw it."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A positive number and its interval. `error` is half the interval's width on the scale of natural logarithms."""

    value: float
    error: float

    @property
    def low(self) -> float:
        return self.value * math.exp(-self.error)

    @property
    def high(self) -> float:
        return self.value * math.exp(self.error)

    def over(self, other: "Estimate") -> "Estimate":
        """The quotient of two that were measured apart."""
        return Estimate(self.value / other.value, math.hypot(self.error, other.error))

    def times(self, other: "Estimate") -> "Estimate":
        """The product of two that were measured apart."""
        return Estimate(self.value * other.value, math.hypot(self.error, other.error))

    def agrees_with(self, other: "Estimate") -> bool:
        """Whether the two may be measurements of one thing: their distance is within both errors taken together."""
        return abs(math.log(self.value / other.value)) <= math.hypot(self.error, other.error)

    def as_json(self) -> dict[str, float | None]:
        """An interval that is not known is null."""
        known = math.isfinite(self.error)
        return {"value": self.value, "low": self.low if known else None, "high": self.high if known else None}


def rate(rounds: Sequence[Sequence[Chunk]]) -> Estimate:
    """Tokens a second over the chunks of all rounds."""
    chunks = [chunk for each in rounds for chunk in each]
    tokens, seconds = sum(chunk[0] for chunk in chunks), sum(chunk[1] for chunk in chunks)
    found = tokens / seconds
    error = math.inf
    if len(chunks) > 1:
        squares = sum((chunk[0] - found * chunk[1]) ** 2 for chunk in chunks)
        count = len(chunks)
        error = _student(count - 1) * math.sqrt(count / (count - 1) * squares) / tokens
    if len(rounds) >= ROUNDS_FOR_SPREAD:
        single = [math.log(sum(chunk[0] for chunk in each) / sum(chunk[1] for chunk in each)) for each in rounds]
        error = max(
            error if math.isfinite(error) else 0.0, _student(len(rounds) - 1) * stdev(single) / math.sqrt(len(rounds))
        )
    return Estimate(found, error)


def mean_tokens(clusters: Sequence[float], population: int) -> Estimate:
    """The mean of `population` problems from that of some of them, drawn at random."""
    count, middle = len(clusters), mean(clusters)
    if count >= population:
        return Estimate(middle, 0.0)
    if count < 2:
        return Estimate(middle, math.inf)
    left_out = 1 - count / population
    return Estimate(middle, _student(count - 1) * stdev(clusters) * math.sqrt(left_out / count) / middle)


def extrapolated(rounds: Sequence[Sequence[Chunk]], tokens: Estimate) -> Estimate:
    """Seconds for work of so many `tokens`.

    At the end of a batched run, when nothing waits any more, places stay empty. However long the work, that happens
    once: all tokens but those of the end are made at the rate of the part before.
    """
    full = [[chunk for chunk in each if chunk[2]] for each in rounds]
    if not all(full) or sum(map(len, full)) < 2:
        speed = rate(rounds)
        return Estimate(tokens.value / speed.value, math.hypot(speed.error, tokens.error))
    speed = rate(full)
    steady = tokens.value / speed.value
    lost = [_lost(each, speed.value) for each in rounds]
    seconds = steady + mean(lost)
    spread = END_ERROR * abs(mean(lost))
    if len(rounds) >= ROUNDS_FOR_SPREAD:
        spread = _student(len(rounds) - 1) * stdev(lost) / math.sqrt(len(rounds))
    return Estimate(seconds, math.hypot(speed.error * steady / seconds, spread / seconds, tokens.error))


def _lost(chunks: Sequence[Chunk], speed: float) -> float:
    """Seconds that the end of a run takes beyond what its tokens would take at full speed."""
    ends = [chunk for chunk in chunks if not chunk[2]]
    return sum(chunk[1] for chunk in ends) - sum(chunk[0] for chunk in ends) / speed


def _student(degrees: int) -> float:
    from scipy.stats import t  # late: scipy takes a second, and --help needs none of it

    return float(t.ppf((1 + CONFIDENCE) / 2, degrees))
