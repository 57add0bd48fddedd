"""Ways to run a step through a model."""

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

from actors.engine.continuous.step import Step


class Decoder(Protocol):
    """Embedding to logits, for the tokens of one step."""

    name: str

    def forward(self, step: Step) -> Tensor:
        """Return (S, V) logits of the step's wanted rows, in any float type."""
        ...

    def update(self, weights: Mapping[str, Tensor]) -> None:
        """Copy weights in, by the names of the checkpoint's parameters.

        Raises ValueError for a name or shape that the model does not have, before anything is changed.
        """
        ...
