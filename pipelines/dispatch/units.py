"""How requests are cut into units, and how many units a generator holds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from actors.engine.requests import GenerationRequest, SamplingParams
from pipelines.dispatch.work import Unit

BATCH_SHARE = 16
"""A unit is at most this part of a batch: it comes back, and is recorded, when its longest completion is done, and the
places of the others are filled by then from other units."""

LARGEST_UNIT = 4
"""Of more requests, most would wait as finished completions for the last one, and the engine would run out of work."""

BATCHES_HELD = 3
"""A generator holds so many times what fills its batch: a unit is in its hands until the longest completion is done, and
most of its rows are free long before. With twice the batch a sixth of the places would stay empty where lengths differ
as those of reasoning models do, with three times none (simulated)."""

BATCHES_HELD_IN_GROUPS = 8
"""Where a unit is a whole group of samples, up to the size of a batch. The longest of many is longer: with six times the
batch a tenth of the places would stay empty for the largest groups, with eight times at most a fiftieth (simulated)."""

UNITS_A_WORKER = 64
"""Units that each worker has at least in a run that is large enough, so that the last ones spread evenly."""

GROUPS_A_WORKER = 8
"""With fewer groups than that for each of several workers, groups are cut, so that none of them is idle at the end."""


@dataclass(frozen=True, slots=True)
class UnitPlan:
    """Requests of a unit; units that a generator works on at once; units that it holds."""

    size: int
    concurrency: int
    window: int


def plan_units(batch_size: int, requests: int, workers: int, group: int = 1) -> UnitPlan:
    """Return units for `requests` in all, of which each of `workers` runs `batch_size` at once.

    As many units as fill the batch are worked on at once, and more are at hand, so that the engine's own queue holds the
    next ones whenever a place is free. `group` samples of a problem are one unit if they fit into a batch, since an
    engine computes their prompt once when it has them together.
    """
    size = max(1, min(batch_size // BATCH_SHARE, LARGEST_UNIT, requests // (UNITS_A_WORKER * workers)))
    held = BATCHES_HELD
    enough = workers == 1 or requests >= GROUPS_A_WORKER * workers * group
    if size < group <= batch_size and enough:
        size, held = group, BATCHES_HELD_IN_GROUPS
    return units_of(size, batch_size, requests, held)


def units_of(size: int, batch_size: int, requests: int, held: int = BATCHES_HELD) -> UnitPlan:
    """Return units of a given size, of which a worker holds `held` times what fills its batch; see `plan_units`."""
    concurrency = min(math.ceil(batch_size / size), max(1, math.ceil(requests / size)))
    return UnitPlan(size, concurrency, held * concurrency)


def make_units(
    requests: Sequence[GenerationRequest], size: int, sampling: SamplingParams, prefix: str = "unit"
) -> list[Unit]:
    """Units of at most `size`, the longest prompts first; all samples of a problem in one where they fit."""
    ordered = sorted(requests, key=lambda request: (-len(request.prompt_ids), request.key))
    cuts: list[list[GenerationRequest]] = [[]]
    for _, group in groupby(ordered, key=lambda request: request.problem_id):
        samples = list(group)
        if len(cuts[-1]) + len(samples) > size:
            cuts += [samples[first : first + size] for first in range(0, len(samples), size)]
        else:
            cuts[-1] += samples
    return [
        Unit(f"{prefix}-{number}", tuple(items), context=sampling) for number, items in enumerate(filter(None, cuts))
    ]
