"""What a grading child never does: write a file, open a connection, start a program.

The grader has no use for any of these, so an attempt means that text from a model has found a way to run. It is refused
by an audit hook, which nothing inside the process can take away again, and ends the child.
"""

import os
import sys

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
REFUSED = frozenset(
    [
        "os.system",
        "os.exec",
        "os.posix_spawn",
        "os.spawn",
        "os.fork",
        "os.forkpty",
        "os.startfile",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.mkdir",
        "os.link",
        "os.symlink",
        "os.truncate",
        "os.chmod",
        "os.chown",
        "os.putenv",
    ]
)
REFUSED_FAMILIES = ("socket.", "subprocess.", "shutil.", "ctypes.", "urllib.", "http.", "ftplib.", "smtplib.", "pty.")


def refuse_side_effects() -> None:
    """From here on the process can compute and read, and raises `PermissionError` where it would do anything else."""
    sys.addaudithook(refuse)


def refuse(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open":
        flags = arguments[2]
        if isinstance(flags, int) and flags & WRITING:
            raise PermissionError("a grading child may not write files")
    elif event in REFUSED or event.startswith(REFUSED_FAMILIES):
        raise PermissionError(f"a grading child may not use {event}")
