"""Agreement: the share of samples that give the winning answer, and what it says about being right."""

from collections.abc import Sequence
from typing import Any

BINS = 5


def calibration(agreement: Sequence[float], correct: Sequence[float], bins: int = BINS) -> dict[str, Any]:
    """Hold each problem's agreement, in [0, 1], against how far its vote is correct, in [0, 1].

    `mean` is the mean agreement. `bins` has, for each of so many equal parts of [0, 1] that has problems (a value on a
    border belongs to the part above, 1 to the last one), `from`, `to`, the number of `problems`, their mean `agreement`
    and share `correct`. `expected_calibration_error` is the mean distance of these two, weighted by problems (Naeini
    et al. 2015, AAAI). Numbers are None without problems.
    """
    parts: list[list[tuple[float, float]]] = [[] for _ in range(bins)]
    for pair in zip(agreement, correct, strict=True):
        parts[min(bins - 1, int(pair[0] * bins + 1e-9))].append(pair)
    shown = []
    for place, pairs in enumerate(parts):
        if pairs:
            agreed, right = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
            edges = {"from": place / bins, "to": (place + 1) / bins}
            shown.append({**edges, "problems": len(pairs), "agreement": agreed, "correct": right})
    count = len(agreement)
    error = sum(part["problems"] * abs(part["agreement"] - part["correct"]) for part in shown)
    return {
        "mean": sum(agreement) / count if count else None,
        "expected_calibration_error": error / count if count else None,
        "bins": shown,
    }
