"""Where problems come from: built-in sets, files, folders and the hub."""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from pipelines.problems.arithmetic import Exhausted, arithmetic_problems
from pipelines.problems.error import ProblemError
from pipelines.problems.files import SUFFIXES, read_file
from pipelines.problems.hub import read_hub
from pipelines.problems.problem import Problem
from pipelines.problems.rows import problems_from_rows
from pipelines.problems.suggestion import did_you_mean

MINI = "builtin:mini"
ARITHMETIC = "builtin:arithmetic"
BUILTIN = (MINI, ARITHMETIC)
DATA_FOLDER_VARIABLE = "MATHLETE_DATA"
LOCAL_COPIES = {"HuggingFaceH4/MATH-500": "math500.jsonl"}
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True, slots=True)
class DataSource:
    """What to load.

    `source` is "builtin:mini", "builtin:arithmetic", the path of a .jsonl, .json or .parquet file, a folder laid out
    as a hub dataset, or a hub id. A relative path that does not exist is looked up in the folder that the environment
    variable MATHLETE_DATA names. `split` applies to the hub, folders and "builtin:arithmetic"; `revision` and `subset`
    to the hub; `columns` (field of `Problem` → column, None or "" for no such column) to everything that is a table;
    `seed`, `count`, `levels` and `exhausted` to "builtin:arithmetic".
    """

    source: str
    split: str = "test"
    revision: str | None = None
    subset: str | None = None
    columns: Mapping[str, str | None] = field(default_factory=dict)
    seed: int = 0
    count: int = 200
    levels: tuple[int, ...] = (1, 2, 3, 4, 5)
    exhausted: Exhausted = "refuse"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a source was found: `path` for a file or folder, None for built-in sets and the hub."""

    path: Path | None
    description: str


def load_problems(source: DataSource, left_out: list[str] | None = None) -> list[Problem]:
    """The problems of `source` in its own order, with unique ids. Raises `ProblemError`; where `left_out` is given, rows
    that are at fault are left out, and why goes there."""
    if source.source == ARITHMETIC:
        return arithmetic_problems(source.count, source.seed, source.split, source.levels, source.exhausted)
    if source.source == MINI:
        rows, faults = read_file(_mini_path())
        return problems_from_rows(rows, {}, MINI, faults)
    place = locate(source)
    if place.path is not None and not place.path.is_dir():
        if source.revision is not None or source.subset is not None:
            raise ProblemError(
                f"{place.path} is a local file:", ["revision and subset belong to datasets on the hub; leave them out"]
            )
        rows, faults = read_file(place.path)
        return problems_from_rows(rows, source.columns, str(place.path), faults, left_out)
    rows = read_hub(str(place.path or source.source), source.split, source.revision, source.subset)
    return problems_from_rows(rows, source.columns, place.description, left_out=left_out)


def describe_source(source: DataSource) -> str:
    """One line for people and the manifest: what is loaded and from where. Raises `ProblemError` as `locate` does."""
    return locate(source).description


def locate(source: DataSource) -> Place:
    """Where the problems will be read from; nothing is opened and no network is used.

    Raises `ProblemError` for an unknown built-in set and for a name that is neither a path nor a hub id.
    """
    name = source.source
    if name == MINI:
        return Place(None, MINI)
    if name == ARITHMETIC:
        levels = ",".join(map(str, source.levels))
        return Place(
            None, f"{ARITHMETIC} ({source.split}, seed {source.seed}, {source.count} problems, levels {levels})"
        )
    if name.startswith("builtin:"):
        message = f"the built-in sets are {' and '.join(BUILTIN)}"
        raise ProblemError(f"{name!r} is not a source of problems:", [message])
    if (path := _local_path(name)) is not None:
        return Place(path, str(path))
    if (copy := _local_copy(source)) is not None:
        return Place(copy, f"{name} (local copy {copy}, from {DATA_FOLDER_VARIABLE})")
    if HUB_ID.fullmatch(name):
        at = f" at revision {source.revision}" if source.revision else ""
        subset = f", subset {source.subset}" if source.subset else ""
        return Place(None, f"{name} (hub{at}{subset}, split {source.split})")
    raise ProblemError(
        f"{name!r} is not a source of problems:",
        [
            "it is no existing path, does not end in .jsonl, .json or .parquet, and is no hub id (owner/name)"
            + did_you_mean(name, [*BUILTIN, *LOCAL_COPIES, *_data_folder_files()], list_known="known here")
        ],
    )


def dataset_fingerprint(problems: Iterable[Problem]) -> str:
    """SHA-256 in hex over the ids, texts and answers in order; equal when and only when the task is the same."""
    digest = hashlib.sha256()
    for problem in problems:
        for text in (problem.id, problem.problem, problem.answer):
            encoded = text.encode("utf-8")
            # Lengths in front, so that moving a character from one field to the next changes the result.
            digest.update(len(encoded).to_bytes(8, "big"))
            digest.update(encoded)
    return digest.hexdigest()


def _mini_path() -> Path:
    return Path(str(files("pipelines.problems").joinpath("mini.jsonl")))


def _data_folder() -> Path | None:
    value = os.environ.get(DATA_FOLDER_VARIABLE)
    return Path(value).expanduser() if value else None


def _data_folder_files() -> list[str]:
    folder = _data_folder()
    if folder is None or not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)


def _local_path(name: str) -> Path | None:
    """The path that `name` means, or None when it does not look like one."""
    path = Path(name).expanduser()
    if path.exists():
        return path.absolute()
    folder = _data_folder()
    if folder is not None and not path.is_absolute() and (folder / path).exists():
        return (folder / path).absolute()
    looks_like_path = path.suffix.lower() in SUFFIXES or name.startswith(("/", "./", "../", "~"))
    return path.absolute() if looks_like_path else None


def _local_copy(source: DataSource) -> Path | None:
    """A file in the data folder that stands for a hub id; a revision that was asked for goes to the hub."""
    folder = _data_folder()
    if folder is None or source.source not in LOCAL_COPIES or source.revision is not None:
        return None
    path = (folder / LOCAL_COPIES[source.source]).absolute()
    return path if path.is_file() else None
