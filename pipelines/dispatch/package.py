"""What `ray job submit --working-dir` uploads of a folder, known before it is sent."""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ray._private.ray_constants import DASHBOARD_CLIENT_MAX_SIZE, get_runtime_env_default_excludes
from ray._private.runtime_env.packaging import _dir_travel, _get_excludes

LIMIT_BYTES = DASHBOARD_CLIENT_MAX_SIZE
"""The job server refuses a larger body, after the whole upload."""

_ENTRY_BYTES = 76
"""Of a zip archive's local and central header for one file, beside its name, which stands in both."""


@dataclass(frozen=True, slots=True)
class Package:
    """The files of `folder` that are uploaded, by relative path, with their sizes in bytes."""

    folder: Path
    files: dict[str, int]

    @property
    def size(self) -> int:
        """Bytes of the archive; Ray does not compress."""
        return sum(size + _ENTRY_BYTES + 2 * len(name.encode()) for name, size in self.files.items())

    def largest(self, count: int) -> list[tuple[str, int]]:
        return sorted(self.files.items(), key=lambda entry: (-entry[1], entry[0]))[:count]

    def holds(self, path: str) -> bool:
        """Whether `path`, relative to the folder, is a file of the package or a folder with files of it."""
        name = os.path.normpath(path)
        return name in self.files or any(known.startswith(f"{name}{os.sep}") for known in self.files)


def read_package(folder: Path, excludes: Sequence[str] = ()) -> Package:
    """Walk `folder` as Ray does when it packs it: without what .gitignore, .rayignore, `excludes` and Ray's own list
    leave out."""
    root = folder.absolute()
    files: dict[str, int] = {}

    def note(path: Path) -> None:
        if path.is_file():
            files[str(path.relative_to(root))] = path.stat().st_size

    # Ray has no public way to ask; this is the walk that it packs with, so that the answer is the truth.
    left_out = [_get_excludes(root, [*get_runtime_env_default_excludes(), *excludes])]
    ignore_git = os.environ.get("RAY_RUNTIME_ENV_IGNORE_GITIGNORE", "0") == "1"
    quiet = logging.getLogger(__name__)  # Ray's own logger lists the ignore files on the console
    _dir_travel(root, left_out, note, include_gitignore=not ignore_git, logger=quiet)
    return Package(root, files)
