"""The texts of a run's problems, kept beside its samples: the source may be out of reach when somebody reads the run."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from pipelines.problems.problem import Problem
from pipelines.records.run_folder import write_whole


def write_problems(path: Path, problems: Iterable[Problem]) -> None:
    """One JSON line a problem, without its solution. Raises RunFolderError when it cannot be written."""
    rows = ({**asdict(problem), "solution": None} for problem in problems)
    write_whole(path, "".join(json.dumps(row) + "\n" for row in rows))


def read_problems(path: Path) -> dict[str, Problem]:
    """By id; empty where the file is missing, as in folders of runs that did not write it."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8") as lines:
        found = [Problem(**json.loads(line)) for line in lines]
    return {problem.id: problem for problem in found}
