"""From measurements to ratios, and what they are held against."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import linear_regression, median
from typing import Any

from pipelines.bench.measurement import Measurement
from pipelines.bench.work import GROWTH_FROM, GROWTH_STEP
from pipelines.records.engine_use import ideal_gain

Runs = Sequence[Measurement]

GROWTH_WINDOW = 32
"""Steps whose context is at most so far from a point count for it."""

MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the table. `ratio` is of medians over the rounds; `low` and `high` are of single rounds."""

    what: str
    unit: str
    ours: float
    peer: float
    ratio: float
    low: float
    high: float
    target: float | None
    at_most: bool = False
    """Whether `target` is an upper bound of the ratio; else a lower one."""
    details: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What stands below the table."""

    @property
    def held(self) -> bool | None:
        """None where there is no target."""
        if self.target is None:
            return None
        return self.ratio <= self.target if self.at_most else self.ratio >= self.target

    def as_json(self) -> dict[str, Any]:
        """An end of the range that is not known is null."""
        ends = {name: end if math.isfinite(end) else None for name, end in (("low", self.low), ("high", self.high))}
        return {**asdict(self), **ends, "held": self.held}


def speed(ours: Runs, peer: Runs, target: float | None) -> Finding:
    """Useful tokens a second, ours to the peer's."""
    return compare("speed", "tok/s", [run.tokens_per_s for run in ours], [run.tokens_per_s for run in peer], target)


def first_token(ours: Runs, peer: Runs, target: float | None) -> Finding:
    """Time until all have their first token, the peer's to ours."""
    one, other = ([1000 * run.first_token_s for run in runs if run.first_token_s is not None] for runs in (ours, peer))
    return compare("time to first token", "ms", one, other, target, less_is_better=True)


def share_of_ideal(ours: Runs, static: Runs, batch_size: int, target: float) -> Finding:
    """The gain of continuous over static batching, to what it would be if all steps took the same time.

    The lengths are those of the static runs, in the order in which these ran them.
    """
    gains = [one.tokens_per_s / other.tokens_per_s for one, other in zip(ours, static, strict=True)]
    ideals = [ideal_gain([run.lengths[place] for place in run.order], batch_size) for run in static]
    gain = median(run.tokens_per_s for run in ours) / median(run.tokens_per_s for run in static)
    ideal = median(ideals)
    shares = [gain / ideal for gain, ideal in zip(gains, ideals, strict=True)]
    return Finding("share of the ideal gain", "x", gain, ideal, gain / ideal, min(shares), max(shares), target)


def memory_above(ours: Runs, target: float) -> Finding:
    """Peak memory while generating that is neither libraries, weights nor pool, as a share of these two. Of the pool
    counts what was ever handed out: the rest is not in memory."""
    found = [run.memory for run in ours if run.memory is not None]
    planned = [memory["weights"] + memory["pool_reached"] for memory in found]
    above = [memory["peak"] - memory["before"] - plan for memory, plan in zip(found, planned, strict=True)]
    shares = [extra / plan for extra, plan in zip(above, planned, strict=True)]
    ours_mib, planned_mib = median(above) / MEBIBYTE, median(planned) / MEBIBYTE
    reached, used = (median(memory[name] for memory in found) / MEBIBYTE for name in ("pool_reached", "pool_used"))
    return Finding(
        "above weights and pool",
        "MiB",
        ours_mib,
        planned_mib,
        ours_mib / planned_mib,
        min(shares),
        max(shares),
        target,
        at_most=True,
        details={"pool_reached_mib": reached, "pool_used_mib": used},
        notes=(f"{reached:.0f} MiB of the pool were handed out in all, at most {used:.0f} MiB at once",),
    )


def growth(ours: Runs, rows: int, target: float) -> Finding:
    """Time a token at the longest context, to what a straight line through the shorter half leads to expect.

    More than linear growth in live tokens gives more than 1.
    """
    measured, expected, curve = _growth([step for run in ours for step in run.steps], rows)
    single = [_growth(run.steps, rows) for run in ours]
    ratios = [one / line for one, line, _ in single]
    details = {"ms_a_token_by_context": curve, "rows": rows}
    note = "ms a token by context: " + ", ".join(f"{point}: {ms:.3g}" for point, ms in curve.items())
    return Finding(
        "time a token at the longest context",
        "ms",
        measured,
        expected,
        measured / expected,
        min(ratios),
        max(ratios),
        target,
        at_most=True,
        details=details,
        notes=(note,),
    )


def _growth(steps: Sequence[tuple[float, float]], rows: int) -> tuple[float, float, dict[int, float]]:
    """(measured, expected, milliseconds a token by context)."""
    longest = max(context for context, _ in steps)
    curve = {}
    for point in range(GROWTH_FROM, int(longest) + GROWTH_WINDOW, GROWTH_STEP):
        near = [seconds for context, seconds in steps if abs(context - point) <= GROWTH_WINDOW]
        curve[point] = 1000 * median(near) / rows
    points = list(curve)
    shorter = points[: max(2, len(points) // 2)]
    slope, start = linear_regression(shorter, [curve[point] for point in shorter])
    return curve[points[-1]], start + slope * points[-1], curve


def compare(
    what: str,
    unit: str,
    ours: Sequence[float],
    peer: Sequence[float],
    target: float | None,
    *,
    less_is_better: bool = False,
    notes: tuple[str, ...] = (),
) -> Finding:
    """The better side's median over the other's; one value a round."""

    def ratio(one: float, other: float) -> float:
        return other / one if less_is_better else one / other

    single = [ratio(one, other) for one, other in zip(ours, peer, strict=True)]
    middle = median(ours), median(peer)
    return Finding(what, unit, *middle, ratio(*middle), min(single), max(single), target, notes=notes)
