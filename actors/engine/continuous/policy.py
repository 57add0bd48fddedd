"""When waiting requests may join those that run: the one difference between static, dynamic and continuous batching."""

from dataclasses import dataclass
from typing import Literal

PolicyName = Literal["continuous", "static", "dynamic"]


@dataclass(frozen=True, slots=True)
class Policy:
    """continuous: at every step. static: once everything that ran is done. dynamic: as static, but not before
    `requests` wait or the first of them has waited for `window_s` seconds, for requests that arrive over time."""

    name: PolicyName = "continuous"
    window_s: float = 0.010
    requests: int = 16

    def admits(self, live: int, waiting: int, waited_s: float) -> bool:
        if self.name == "continuous":
            return True
        if live:
            return False
        return self.name == "static" or waiting >= self.requests or waited_s >= self.window_s
