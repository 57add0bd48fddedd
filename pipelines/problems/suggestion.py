"""Close names for a name that is not known."""

import difflib
from collections.abc import Iterable

SHOWN = 8


def did_you_mean(name: str, known: Iterable[str], *, list_known: str | None = None) -> str:
    """Text to put behind a complaint about `name`: `"; did you mean 'x' or 'y'?"`.

    Case is ignored. When nothing is close, the text lists the first known names behind the words `list_known`, or is
    empty when `list_known` is None.
    """
    names = list(dict.fromkeys(known))
    folded: dict[str, str] = {}
    for each in names:
        folded.setdefault(each.casefold(), each)
    close = [folded[match] for match in difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.6)]
    if close:
        return "; did you mean " + " or ".join(repr(each) for each in close) + "?"
    if list_known is None or not names:
        return ""
    more = f", … ({len(names)} in all)" if len(names) > SHOWN else ""
    return f"; {list_known}: " + ", ".join(names[:SHOWN]) + more
