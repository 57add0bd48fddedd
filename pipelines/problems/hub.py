"""Rows from the Hugging Face hub, or from a local folder with the layout of a hub dataset."""

import tempfile
from contextlib import nullcontext
from pathlib import Path

from pipelines.problems.error import ProblemError
from pipelines.problems.rows import Row


def read_hub(name: str, split: str, revision: str | None = None, subset: str | None = None) -> list[Row]:
    """The rows of `split` of the dataset `name`: a hub id such as "HuggingFaceH4/MATH-500", or a folder.

    Downloads are kept in the hub's own cache; a folder is read afresh every time. Raises `ProblemError` when the hub
    cannot be reached, or has no such dataset, revision, subset or split.
    """
    from datasets import load_dataset
    from datasets.exceptions import DatasetNotFoundError, DatasetsError

    is_folder = Path(name).is_dir()
    with tempfile.TemporaryDirectory() if is_folder else nullcontext() as cache:
        try:
            dataset = load_dataset(name, subset, split=split, revision=revision, cache_dir=cache)
            table = dataset.to_list()
        except DatasetNotFoundError as error:
            remedy = "check the spelling of the id and of the revision, and `hf auth login` if the dataset is private"
            raise _refusal(name, f"{_first_line(error)}; {remedy}") from error
        except ConnectionError as error:
            raise _refusal(name, f"the hub cannot be reached ({_first_line(error)})") from error
        except (DatasetsError, OSError, ValueError) as error:
            raise _refusal(name, f"split {split!r}: {_first_line(error)}") from error
    return [Row(f"row {number}", values) for number, values in enumerate(table, start=1)]


def _refusal(name: str, reason: str) -> ProblemError:
    if Path(name).is_dir():
        ways_out = "A folder must be laid out as a hub dataset, such as data/test.jsonl or test.parquet"
    else:
        ways_out = (
            "Without the hub, there are two ways: download the dataset on another machine and give the path of its "
            ".jsonl or .parquet file, or use builtin:mini or builtin:arithmetic"
        )
    return ProblemError(f"the dataset {name!r} cannot be loaded:", [reason, ways_out])


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
