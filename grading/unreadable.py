"""Why a piece of text was not read as mathematics."""


class Unreadable(ValueError):
    """The text is not an answer this package reads, or is too large to read safely.

    The message is one of a small set of fixed phrases. It never quotes the text or a value built from it: printing an
    unevaluated number can itself take for ever.
    """
