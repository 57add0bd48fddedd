"""What serving gave: latencies by percentile, throughput, and the throughput that policies reach at equal latency."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipelines.bench.traffic import WARM_UP

PERCENTILES = (50, 95, 99)


@dataclass(frozen=True, slots=True)
class Served:
    """One traffic under one policy. Latencies in seconds, of the requests that count."""

    rate: float
    requests: int
    tokens_per_s: float
    """Of completions that ended while requests still arrived; of all, where all were there at the start."""
    first_token: Mapping[int, float]
    per_token: Mapping[int, float]
    """Time between two tokens: from the first to the last, over the number of steps between."""
    end_to_end: Mapping[int, float]
    blocked: Mapping[int, float]
    """Head-of-line blocking: time that a request waited although a place was free."""
    occupancy: float
    padding_share: float
    busy_share: float
    limit_share: float

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> "Served":
        """From what a child printed, without the requests of the warm-up."""
        warm = WARM_UP * found["seconds"]
        counted = [place for place, arrival in enumerate(found["arrivals"]) if arrival >= warm]
        counted = counted or list(range(len(found["arrivals"])))
        first, last, tokens = found["first"], found["last"], found["tokens"]
        ends = [arrival + seconds for arrival, seconds in zip(found["arrivals"], last, strict=True)]
        from_s, to_s = (warm, found["seconds"]) if found["rate"] else (0.0, max(ends))
        made = sum(count for count, end in zip(tokens, ends, strict=True) if from_s <= end <= to_s)
        gaps = [(last[place] - first[place]) / (tokens[place] - 1) for place in counted if tokens[place] > 1]
        return cls(
            rate=found["rate"],
            requests=len(counted),
            tokens_per_s=made / (to_s - from_s),
            first_token=percentiles([first[place] for place in counted]),
            per_token=percentiles(gaps or [0.0]),
            end_to_end=percentiles([last[place] for place in counted]),
            blocked=percentiles([found["blocked"][place] for place in counted]),
            **{name: found[name] for name in ("occupancy", "padding_share", "busy_share", "limit_share")},
        )


@dataclass(frozen=True, slots=True)
class ServingRun:
    """All traffics under one policy."""

    served: tuple[Served, ...]
    raw: Sequence[Mapping[str, Any]]
    peak_working: int
    peak_device: int | None

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> "ServingRun":
        served = tuple(Served.read(each) for each in found["served"])
        return cls(served, found["served"], found["peak_working"], found["peak_device"])

    def __str__(self) -> str:
        return ", ".join(f"{each.rate:.2g}/s: p95 {each.end_to_end[95]:.3g} s" for each in self.served if each.rate)

    def as_json(self) -> dict[str, Any]:
        kept = ("rate", "arrivals", "tokens", "first", "last", "blocked")
        return {
            "requests": [{name: each[name] for name in kept} for each in self.raw],
            "peak_working": self.peak_working,
            "peak_device": self.peak_device,
        }


def percentiles(values: Sequence[float]) -> dict[int, float]:
    """The smallest value that at least so many per cent are not above (nearest rank)."""
    ordered = sorted(values)
    return {each: ordered[max(0, math.ceil(each / 100 * len(ordered)) - 1)] for each in PERCENTILES}


def pooled(runs: Sequence[ServingRun]) -> list[Served]:
    """The rounds of a policy as one: their requests together, shares as means."""
    made = []
    for rounds in zip(*(run.raw for run in runs), strict=True):
        seconds = max(each["seconds"] for each in rounds)
        merged: dict[str, Any] = {"rate": rounds[0]["rate"], "seconds": seconds}
        for name in ("arrivals", "tokens", "first", "last", "blocked"):
            merged[name] = [value for each in rounds for value in each[name]]
        for name in ("occupancy", "padding_share", "busy_share", "limit_share"):
            merged[name] = sum(each[name] for each in rounds) / len(rounds)
        found = Served.read(merged)
        # Tokens of all rounds were counted over the time of one.
        made.append(replace(found, tokens_per_s=found.tokens_per_s / len(rounds)))
    return made


def throughput_within(served: Sequence[Served], p95_s: float) -> float:
    """Most tokens a second with 95 % of the requests done within `p95_s`, on straight lines between what was measured;
    0 where even the lowest rate takes longer."""
    by_rate = sorted((each for each in served if each.rate), key=lambda each: each.rate)
    points = [(each.tokens_per_s, each.end_to_end[95]) for each in by_rate]
    best = 0.0
    for place, (speed, latency) in enumerate(points):
        if latency <= p95_s:
            best = max(best, speed)
        elif place and points[place - 1][1] <= p95_s:
            speed_before, before = points[place - 1]
            best = max(best, speed_before + (speed - speed_before) * (p95_s - before) / (latency - before))
    return best
