"""The one error of this package."""


class ModelError(RuntimeError):
    """A model cannot be had or does not load. The text says why and what to do, in the user's words."""
