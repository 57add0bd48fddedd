"""Making texts fit: the longest ones give up their middle first, and it is told how much."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

HEAD_SHARE = 0.35
"""Of what is kept; the rest is the end, where the answer stands."""


@dataclass(frozen=True, slots=True)
class Shortened:
    """`text` with `omitted` characters missing at position `cut`."""

    text: str
    cut: int = 0
    omitted: int = 0


def encoded_size(text: str) -> int:
    """Bytes of the text as it stands in the page."""
    return len(embedded_json(text).encode("utf-8", "replace"))


def embedded_json(value: object) -> str:
    """JSON that may stand within a script element: nothing in it can end the element or a line of script."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def fitted(texts: Sequence[str], budget: int) -> list[Shortened]:
    """The texts, cut so that all of them together take about `budget` bytes: none above a common limit."""
    sizes = [encoded_size(text) for text in texts]
    limit = common_limit(sizes, budget)
    return [
        Shortened(text) if size <= limit else _cut(text, size, limit) for text, size in zip(texts, sizes, strict=True)
    ]


def common_limit(sizes: Sequence[int], budget: int) -> int:
    """The largest limit for which the sizes, none counted above it, add up to at most `budget`."""
    left = budget
    for place, size in enumerate(sorted(sizes)):
        if size * (len(sizes) - place) > left:
            return left // (len(sizes) - place)
        left -= size
    return max(sizes, default=0)


def _cut(text: str, size: int, limit: int) -> Shortened:
    kept = int(len(text) * limit / size)
    while True:
        head = int(kept * HEAD_SHARE)
        shorter = text[:head] + text[len(text) - (kept - head) :]
        if kept == 0 or encoded_size(shorter) <= limit:
            return Shortened(shorter, head, len(text) - kept)
        kept = int(kept * 0.9)
