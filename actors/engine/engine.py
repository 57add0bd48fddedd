"""What every engine offers, so that they can take each other's place and check each other."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from actors.engine.progress import Progress
from actors.engine.requests import Completion, GenerationRequest, SamplingParams

if TYPE_CHECKING:
    from torch import Tensor


class Engine(Protocol):
    """Takes requests at any time, works a step at a time, and hands out completions as they finish.

    All methods are called from one thread; `progress` may be read from any.
    """

    progress: Progress
    policy_version: int
    """Version of the weights. Every completion carries the one that its first token came from."""

    def add(self, requests: Sequence[GenerationRequest], sampling: SamplingParams) -> list[int]:
        """Queue `requests`; returns a ticket for each, unique in this engine."""
        ...

    def step(self) -> list[tuple[int, Completion]]:
        """Do one step of work and return what finished in it, with its tickets. Without work it returns at once.

        A request that cannot be served (empty prompt, no room in the context, unknown token id, logits that are not
        finite, too little memory for it alone) gives a completion with finish_reason "error"; the others go on.
        """
        ...

    def abort(self, tickets: Collection[int]) -> None:
        """Forget these requests, waiting or running; nothing comes back for them. Unknown tickets are ignored."""
        ...

    @property
    def busy(self) -> bool:
        """Whether any request is waiting or running."""
        ...

    @property
    def description(self) -> str:
        """What it runs with, in a few words."""
        ...

    def update_weights(self, weights: Mapping[str, "Tensor"], version: int) -> None:
        """Copy `weights`, by the names of the checkpoint's parameters, over the engine's own.

        What is running goes on with the new weights and keeps the tokens that it has; nothing computed with the old
        ones is used again. Raises ValueError for a name or shape that the model does not have; it then has changed
        nothing.
        """
        ...

    def generate(self, requests: Sequence[GenerationRequest], sampling: SamplingParams) -> list[Completion]:
        """Return one completion a request, in the order of `requests`."""
        tickets = self.add(requests, sampling)
        done: dict[int, Completion] = {}
        while len(done) < len(tickets):
            done |= dict(self.step())
        return [done[ticket] for ticket in tickets]
