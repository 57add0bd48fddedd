"""Random choices that depend on a key alone."""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draws:
    """A stream of choices from SHA-256 of the key and a counter: the same on every Python, machine and process."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._drawn = 0

    def integer(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        digest = hashlib.sha256(f"{self._key}/{self._drawn}".encode()).digest()
        self._drawn += 1
        # 128 bits over at most a few thousand values: the bias of the remainder is far below anything measurable.
        return low + int.from_bytes(digest[:16], "big") % (high - low + 1)

    def pick(self, choices: Sequence[T]) -> T:
        """One of `choices`."""
        return choices[self.integer(0, len(choices) - 1)]
