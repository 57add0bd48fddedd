"""Where a result comes from: versions, machine, code, command."""

import importlib.metadata
import platform
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

_PACKAGES = ("mathlete", "torch", "transformers", "ray", "datasets", "sympy", "tokenizers", "numpy")


def provenance(command: str) -> dict[str, Any]:
    """Everything about this process that a reader of the result may ask for."""
    return {
        "command": command,
        "started": timestamp(),
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version for name in _PACKAGES if (version := _version(name))},
        "git": _git_revision(),
    }


def timestamp() -> str:
    """The time now, to the second, with its offset from UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git_revision() -> str | None:
    """Commit of the source tree, with `+changes` when it has any; None outside a checkout."""
    git, root = shutil.which("git"), Path(__file__).parents[2]
    if git is None or not (root / ".git").exists():
        return None

    def ask(*words: str) -> str:
        return subprocess.run([git, "-C", str(root), *words], capture_output=True, text=True, timeout=10).stdout.strip()

    revision = ask("rev-parse", "HEAD")
    return f"{revision}+changes" if revision and ask("status", "--porcelain", "-uno") else revision or None
