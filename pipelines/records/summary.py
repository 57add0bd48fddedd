"""What a run found, always computed from the whole journal."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from pipelines.records.journal import Sample

Z_95 = 1.959963984540054
"""97.5 % quantile of the normal distribution."""

FAULTS = ("timeout", "error")
"""Verdicts that say something of the machinery and nothing of the model."""

VERDICTS = ("correct", "wrong", "unparsed", *FAULTS)


def wilson_interval(successes: int, trials: int) -> tuple[float, float] | None:
    """95 % score interval of a proportion (Wilson 1927, eq. 4 solved for p); None without trials.

    Unlike the textbook normal interval it stays inside [0, 1] and keeps its coverage near 0 and 1.
    """
    if trials == 0:
        return None
    p, z2 = successes / trials, Z_95**2
    centre = (p + z2 / (2 * trials)) / (1 + z2 / trials)
    half = Z_95 / (1 + z2 / trials) * math.sqrt(p * (1 - p) / trials + z2 / (4 * trials**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def accuracy(samples: Sequence[Sample]) -> dict[str, Any]:
    """Share of correct samples with its interval and counts.

    `accuracy` is over all samples, so a fault of the machinery lowers it; `accuracy_judged` leaves faults out.
    """
    correct = sum(sample.verdict == "correct" for sample in samples)
    judged = sum(sample.verdict not in FAULTS for sample in samples)
    interval = wilson_interval(correct, len(samples))
    return {
        "n": len(samples),
        "correct": correct,
        "accuracy": correct / len(samples) if samples else None,
        "interval_95": list(interval) if interval else None,
        "accuracy_judged": correct / judged if judged else None,
    }


def summarise(samples: Iterable[Sample], planned: int) -> dict[str, Any]:
    """The findings over `samples` of a run that plans `planned` of them."""
    rows = list(samples)
    verdicts = Counter(sample.verdict for sample in rows)
    finished = [sample for sample in rows if sample.finish_reason != "error"]
    truncated = sum(sample.finish_reason == "length" for sample in finished)
    lengths = sorted(sample.num_tokens for sample in finished)
    return {
        **accuracy(rows),
        "planned": planned,
        "verdicts": {verdict: verdicts.get(verdict, 0) for verdict in VERDICTS},
        "fault_share": sum(verdicts.get(fault, 0) for fault in FAULTS) / len(rows) if rows else 0.0,
        "truncated_share": truncated / len(finished) if finished else None,
        "tokens": {
            "total": sum(lengths),
            "mean": sum(lengths) / len(lengths) if lengths else None,
            "p50": _quantile(lengths, 0.5),
            "p90": _quantile(lengths, 0.9),
            "max": lengths[-1] if lengths else None,
        },
        "by_subject": _groups(rows, [sample.subject for sample in rows]),
        "by_level": _groups(rows, [sample.level for sample in rows]),
    }


def _groups(samples: Sequence[Sample], labels: Sequence[Any]) -> dict[str, dict[str, Any]]:
    known = sorted({label for label in labels if label is not None})
    return {
        str(label): accuracy([sample for sample, own in zip(samples, labels, strict=True) if own == label])
        for label in known
    }


def _quantile(ordered: Sequence[int], q: float) -> int | None:
    """Nearest rank."""
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)] if ordered else None
