import subprocess
import sys

import pytest

ATTEMPTS = {
    "write": "open('made', 'w')",
    "append": "open('kept', 'a')",
    "low-level write": "os.open('made', os.O_CREAT | os.O_RDWR)",
    "connection": "socket.create_connection(('127.0.0.1', 9))",
    "program": "subprocess.run(['true'])",
    "shell": "os.system('touch made')",
    "fork": "os.fork()",
    "remove": "os.remove('kept')",
    "rename": "os.rename('kept', 'made')",
    "folder": "os.mkdir('made')",
    "foreign library": "ctypes.CDLL(None)",
}
GUARDED = """
import ctypes, os, socket, subprocess, sys
from grading.guard import refuse_side_effects

refuse_side_effects()
open('kept').close()
for attempt in sys.argv[1:]:
    try:
        exec(attempt)
    except PermissionError:
        continue
    sys.exit('not refused: ' + attempt)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "kept").touch()
    return tmp_path


def test_a_guarded_process_reads_and_does_nothing_else(folder):
    run = subprocess.run(
        [sys.executable, "-c", GUARDED, *ATTEMPTS.values()],
        cwd=folder,
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert [path.name for path in folder.iterdir()] == ["kept"]
