"""The one exception for data that cannot be used as problems."""

from collections.abc import Sequence

SHOWN = 10


class ProblemError(ValueError):
    """Everything that is wrong with one source of problems, or with a selection from it.

    `messages` holds every fault; the text of the exception shows the first ten and says how many there are.
    """

    def __init__(self, heading: str, messages: Sequence[str]) -> None:
        self.heading = heading
        self.messages = list(messages)
        lines = [heading, *(f"  - {message}" for message in self.messages[:SHOWN])]
        if len(self.messages) > SHOWN:
            lines.append(f"  … and {len(self.messages) - SHOWN} more ({len(self.messages)} in all)")
        super().__init__("\n".join(lines))
