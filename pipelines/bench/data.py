"""Which problems a benchmark uses where none are named."""

from pipelines.config import EvalConfig


def default_source() -> str:
    """MATH-500 where there is a local copy; else generated arithmetic, which needs no network."""
    from pipelines.problems import DataSource
    from pipelines.problems.sources import ARITHMETIC, locate

    math = EvalConfig().data.source
    return math if locate(DataSource(math)).path is not None else ARITHMETIC
