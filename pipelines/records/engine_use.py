"""How well engines were used: what their counters say, and what other ways of batching could have given at best."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def engine_use(progress: Iterable[Mapping[str, Any]], lengths: Sequence[int], batch_size: int) -> dict[str, Any]:
    """Return what generators that last reported `progress` made of their time, for completions of these `lengths`.

    `occupancy`: share of the places in a batch that were taken, over all steps. `padding_share`: of all tokens run
    through the model, those that stood for nothing. `limit_share`: the least time that the machine's bandwidth and
    matrix rate allow, over the time that it took. `ideal_gain`: see there. None where nobody told.
    """
    told = [counters for counters in progress if counters.get("steps")]

    def total(name: str) -> float:
        return sum(counters.get(name, 0) for counters in told)

    run = total("prompt_tokens") + total("tokens_sampled") + total("padding_tokens")
    return {
        "occupancy": _share(total("row_steps"), total("place_steps")),
        "padding_share": _share(total("padding_tokens"), run),
        "limit_share": _share(total("least_s"), total("busy_s")) if total("least_s") else None,
        "ideal_gain": round(ideal_gain(lengths, batch_size), 3),
        "preemptions": int(total("preemptions")),
        "prefix_tokens_shared": int(total("prefix_tokens_shared")),
    }


def ideal_gain(lengths: Sequence[int], batch_size: int) -> float:
    """Return how many times fewer steps continuous batching needs than static batching, at best, for completions of
    these lengths in this order: the longest of each batch, summed, over the larger of the longest of all and the mean
    number of steps with every place taken. 1.0 without completions.
    """
    if not lengths:
        return 1.0
    batches = [lengths[first : first + batch_size] for first in range(0, len(lengths), batch_size)]
    return sum(map(max, batches)) / max(max(lengths), sum(lengths) / batch_size)


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, 3) if whole else None
