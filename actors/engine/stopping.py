"""When a completion ends, and the text it leaves.

Trim policy: `token_ids` keep every token up to and including the one that ended the completion (the EOS token, or
the token that completed a stop string), so ids and log-probabilities always have equal lengths; the text is cut
before the stop string and never contains the EOS token.
"""

from collections.abc import Collection, Sequence
from typing import Literal

from transformers import PreTrainedTokenizerBase

# A decoder may alter the first tokens of a window: half a multi-byte character, a leading space that is stripped.
WINDOW_SLACK = 8


class Stopping:
    """Decides after each token whether a completion is over. Holds no state of any completion."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, eos_token_ids: Collection[int], stop: Sequence[str] = ()
    ) -> None:
        self._tokenizer = tokenizer
        self._eos = frozenset(eos_token_ids)
        self._stop = tuple(stop)
        self._invisible = frozenset(tokenizer.all_special_ids)
        # A visible token is at least one byte of text.
        self._window = max((len(text.encode()) for text in stop), default=0) + WINDOW_SLACK

    def reason(self, token_ids: Sequence[int]) -> Literal["eos", "stop"] | None:
        """Return why a completion ends at its newest token, None if it goes on. Cost does not grow with its length."""
        if token_ids[-1] in self._eos:
            return "eos"
        if self._stop and self._cut(self._decode(self._tail(token_ids))) is not None:
            return "stop"
        return None

    def text(self, token_ids: Sequence[int]) -> str:
        """Return the whole text, without special tokens, without EOS, cut before the first stop string."""
        visible = token_ids[:-1] if token_ids and token_ids[-1] in self._eos else token_ids
        text = self._decode(visible)
        return text[: self._cut(text)]

    def _tail(self, token_ids: Sequence[int]) -> list[int]:
        tail: list[int] = []
        for token in reversed(token_ids):
            if token not in self._invisible:
                tail.append(token)
                if len(tail) == self._window:
                    break
        tail.reverse()
        return tail

    def _cut(self, text: str) -> int | None:
        places = [place for place in map(text.find, self._stop) if place >= 0]
        return min(places, default=None)

    def _decode(self, token_ids: Sequence[int]) -> str:
        text = self._tokenizer.decode(list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        assert isinstance(text, str)
        return text
