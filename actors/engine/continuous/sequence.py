"""A row as the scheduler sees it: a few integers."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from actors.engine.continuous.runs import BLOCK, Run


@dataclass(slots=True, eq=False)
class Prefix:
    """The whole blocks of a prompt, computed once for all samples of it."""

    run: Run
    length: int
    ready: bool = False
    """Whether every token of it has been computed."""


@dataclass(slots=True, eq=False)
class Sequence:
    """One request: its prompt, what has been generated, and where its keys and values lie."""

    ticket: int
    prompt: Hashable
    """Equal for samples of the same prompt, and for no others."""
    prompt_length: int
    budget: int
    """Tokens that may be generated."""
    arrived: float = 0.0
    length: int = 0
    """Tokens known so far: prompt and completion."""
    computed: int = 0
    """Of these, how many have their keys and values in the pool."""
    prefix: Prefix | None = None
    own: Run | None = None
    leader: "Sequence | None" = None
    """The sample whose prefill this one waits for, to start from its result."""
    followers: list["Sequence"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.length = self.length or self.prompt_length

    @property
    def prefix_length(self) -> int:
        return self.prefix.length if self.prefix is not None else 0

    @property
    def generated(self) -> int:
        return self.length - self.prompt_length

    @property
    def most(self) -> int:
        """Keys and values that it can ever need: those of the last token are never asked for."""
        return self.prompt_length + self.budget - 1

    @property
    def shareable(self) -> int:
        return self.prompt_length // BLOCK * BLOCK

    def place(self, position: int) -> int:
        """The pool's token that holds `position`."""
        if self.prefix is not None and position < self.prefix.length:
            return self.prefix.run.start + position
        assert self.own is not None
        return self.own.start + position - self.prefix_length
