"""What a run found, always computed from the whole journal."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from pipelines.metrics.interval import clustered_interval
from pipelines.records.journal import FAULTS, VERDICTS, Sample


def accuracy(samples: Sequence[Sample]) -> dict[str, Any]:
    """Share of correct samples with its interval and counts.

    `accuracy` is over all samples, so a fault of the machinery lowers it; `accuracy_judged` leaves faults out. The
    interval takes into account that samples of one problem are alike.
    """
    correct = sum(sample.verdict == "correct" for sample in samples)
    judged = sum(sample.verdict not in FAULTS for sample in samples)
    sizes = Counter(sample.problem_id for sample in samples)
    right = Counter(sample.problem_id for sample in samples if sample.verdict == "correct")
    interval = clustered_interval([right[name] / size for name, size in sizes.items()], list(sizes.values()))
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
