"""Rows from JSON Lines, JSON and Parquet files."""

import difflib
import json
import tempfile
from pathlib import Path
from typing import Any

from pipelines.problems.error import ProblemError
from pipelines.problems.rows import Row

SUFFIXES = (".jsonl", ".json", ".parquet")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_file(path: Path) -> tuple[list[Row], list[str]]:
    """The rows of a .jsonl, .json or .parquet file and the faults found in it, each naming its line.

    Raises `ProblemError` when there is no such file or nothing in it can be read.
    """
    if not path.is_file():
        raise ProblemError(f"{path.absolute()} cannot be read:", [_missing(path)])
    readers = {".jsonl": _read_jsonl, ".json": _read_json, ".parquet": _read_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ProblemError(
            f"{path.absolute()} cannot be read:",
            [f"files end in {', '.join(SUFFIXES)}, this one ends in {path.suffix!r}; rename or convert it"],
        )
    return reader(path)


def _missing(path: Path) -> str:
    if path.is_dir():
        return "it is a folder, not a file"
    folder = path.absolute().parent
    if not folder.is_dir():
        return f"there is no such file, and no folder {folder} either"
    names = sorted(each.name for each in folder.iterdir() if each.suffix.lower() in SUFFIXES)
    close = difflib.get_close_matches(path.name, names, n=3, cutoff=0.5) or names[:5]
    hint = f"; similar names there: {', '.join(close)}" if close else f"; {folder} holds no {', '.join(SUFFIXES)} file"
    return f"there is no such file{hint}. A relative name is also looked up in the folder that MATHLETE_DATA names"


def _read_jsonl(path: Path) -> tuple[list[Row], list[str]]:
    rows, faults = [], []
    with path.open("rb") as lines:
        for number, raw in enumerate(lines, start=1):
            place = f"line {number}"
            raw = raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw
            try:
                line = raw.decode("utf-8").strip()
                if not line:
                    continue
                value = _parse(line)
            except UnicodeDecodeError as error:
                faults.append(_not_utf8(f"{path.name}:{number}", error))
                continue
            except json.JSONDecodeError as error:
                faults.append(f"{path.name}:{number}: not valid JSON: {error.msg} at column {error.colno}")
                continue
            if isinstance(value, dict):
                rows.append(Row(place, value))
            else:
                faults.append(f'{path.name}:{number}: a row must be an object {{"problem": …}}, not {_kind(value)}')
    return rows, faults


def _read_json(path: Path) -> tuple[list[Row], list[str]]:
    refused = f"{path.absolute()} cannot be read:"
    try:
        value = _parse(path.read_bytes().removeprefix(BYTE_ORDER_MARK).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ProblemError(refused, [_not_utf8(path.name, error)]) from None
    except json.JSONDecodeError as error:
        hint = "; a file with one object a line must end in .jsonl" if error.msg == "Extra data" else ""
        message = f"{path.name}:{error.lineno}: not valid JSON: {error.msg} at column {error.colno}{hint}"
        raise ProblemError(refused, [message]) from None
    if not isinstance(value, list):
        hint = "; a file with one object a line must end in .jsonl"
        raise ProblemError(refused, [f"{path.name}: it must hold one list of objects, not {_kind(value)}{hint}"])
    rows, faults = [], []
    for number, each in enumerate(value, start=1):
        if isinstance(each, dict):
            rows.append(Row(f"row {number}", each))
        else:
            faults.append(f'row {number}: a row must be an object {{"problem": …}}, not {_kind(each)}')
    return rows, faults


def _read_parquet(path: Path) -> tuple[list[Row], list[str]]:
    import pyarrow
    from datasets import Dataset
    from datasets.exceptions import DatasetsError

    # A cache of its own: the file may change between runs, and nothing should stay behind in the home folder.
    with tempfile.TemporaryDirectory() as cache:
        try:
            table = Dataset.from_parquet(str(path), cache_dir=cache).to_list()
        except (DatasetsError, pyarrow.ArrowException, OSError, ValueError) as error:
            reason = str(error.__cause__ or error).splitlines()[0]
            raise ProblemError(f"{path.absolute()} cannot be read:", [f"not a valid Parquet file: {reason}"]) from error
    return [Row(f"row {number}", values) for number, values in enumerate(table, start=1)], []


def _parse(text: str) -> Any:
    # Decimals stay as they are written: 0.10 is an answer, and its digits matter.
    return json.loads(text, parse_float=str)


def _not_utf8(place: str, error: UnicodeDecodeError) -> str:
    return (
        f"{place}: not UTF-8: byte 0x{error.object[error.start]:02x} at offset {error.start}; "
        "save the file in UTF-8 (iconv -f latin1 -t utf-8)"
    )


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a string", dict: "an object", type(None): "null", bool: "a boolean"}
    return names.get(type(value), "a number")
