"""Requests that arrive over time: when, with which prompt, and how long their completions become."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.bench.work import Ids

MEDIAN_TOKENS, SPREAD = 174, 0.76
"""Median and standard deviation of the logarithm of MATH-500's solutions in tokens of SmolLM2: where data has no
solutions, lengths are drawn from the log-normal distribution of these."""

WARM_UP = 0.2
"""Share of the time of arrivals after which requests count: the engine starts empty."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests at one mean rate, in the order of their arrival. A rate of 0 says that all are there at the start."""

    rate: float
    """Requests a second."""
    seconds: float
    """Over which they arrive."""
    arrivals: tuple[float, ...]
    prompts: tuple[Ids, ...]
    lengths: tuple[int, ...]
    """New tokens of each; where the model would end is ignored."""

    @property
    def mean_length(self) -> float:
        return sum(self.lengths) / len(self.lengths)


def poisson(rate: float, seconds: float, prompts: Sequence[Ids], lengths: Sequence[int], seed: int) -> Traffic:
    """Arrivals of a Poisson process: the time between two of them is exponential with mean 1 / `rate`."""
    draw = random.Random(seed)
    arrivals: list[float] = []
    now = draw.expovariate(rate)
    while now < seconds or not arrivals:
        arrivals.append(min(now, seconds))
        now += draw.expovariate(rate)
    return _traffic(rate, seconds, arrivals, prompts, lengths, draw)


def at_once(count: int, prompts: Sequence[Ids], lengths: Sequence[int], seed: int) -> Traffic:
    """All of them at the start."""
    return _traffic(0.0, 0.0, [0.0] * count, prompts, lengths, random.Random(seed))


def lognormal(count: int, most: int) -> list[int]:
    """Lengths of MATH's distribution, none above `most`."""
    draw = random.Random(0)
    return [max(1, min(most, round(MEDIAN_TOKENS * draw.lognormvariate(0, SPREAD)))) for _ in range(count)]


def _traffic(
    rate: float,
    seconds: float,
    arrivals: Sequence[float],
    prompts: Sequence[Ids],
    lengths: Sequence[int],
    draw: random.Random,
) -> Traffic:
    order = draw.sample(range(len(prompts)), len(prompts))
    chosen = tuple(prompts[order[place % len(order)]] for place in range(len(arrivals)))
    return Traffic(rate, seconds, tuple(arrivals), chosen, tuple(draw.choice(lengths) for _ in arrivals))
