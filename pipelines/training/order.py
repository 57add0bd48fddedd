"""Which problems make up which step: a function of seed and step alone, so that a resumed run needs no cursor."""

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

Item = TypeVar("Item")


def batch_of_step(items: Sequence[Item], step: int, size: int, seed: int, stream: str = "steps") -> list[Item]:
    """The `size` items of `step`, counted from 0.

    Each epoch takes the items in another order, drawn from `seed`; what is left over at its end, fewer than `size`, is
    left out of that epoch, so that no item comes twice in a step. Another `stream` has other orders.
    Raises ValueError for fewer items than `size`.
    """
    if len(items) < size:
        raise ValueError(f"a step takes {size} different problems, and there are only {len(items)}")
    steps = len(items) // size
    epoch, place = divmod(step, steps)
    order = _order(len(items), f"{stream}/{seed}/{epoch}")
    return [items[index] for index in order[place * size : (place + 1) * size]]


@lru_cache(maxsize=2)
def _order(count: int, key: str) -> list[int]:
    order = list(range(count))
    random.Random(key).shuffle(order)
    return order
