"""What the parts of a comparison with peers have in common."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pipelines.bench.rounds import Trial


class RowText(Protocol):
    """What is to be known of a row before it is made ready."""

    @property
    def name(self) -> str: ...
    @property
    def compares(self) -> str: ...
    @property
    def optional(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class PlainRow:
    """A row that is no more than its text."""

    name: str
    compares: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """Rows that are ready to run, and what a reader of the result will want to know of them."""

    trials: Sequence[Trial]
    threads: int
    peers: Mapping[str, str | None]
    """Versions of the packages in other interpreters; None where they are not."""
    facts: Mapping[str, Any]


def positive(text: str) -> int:
    """An argument that is a whole number from 1 on."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
