"""A Ray head of this test's own, as an operator would start it: own ports, own temporary folder, ended by its process."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path


class Head:
    """`ray start --head --block` with `cpus` CPUs; `address` is that of its job server."""

    def __init__(self, cpus: int) -> None:
        # Short, for the sockets in it: their paths must not be longer than 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="mh-", dir="/tmp"))
        gcs, dashboard, agent = _free_ports(3)
        self.address = f"http://127.0.0.1:{dashboard}"
        self.bin = Path(sys.executable).parent
        self._log = (self.folder / "head.log").open("w")
        self._process = subprocess.Popen(
            [
                *(self.bin / "ray", "start", "--head", "--block", "--disable-usage-stats", f"--num-cpus={cpus}"),
                *("--num-gpus=0", f"--port={gcs}", f"--dashboard-port={dashboard}", "--dashboard-host=127.0.0.1"),
                *(f"--dashboard-agent-listen-port={agent}", f"--object-store-memory={80 * 1024**2}"),
                f"--temp-dir={self.folder / 'ray'}",
            ],
            env={
                **os.environ,
                "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
                "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
                "RAY_worker_niceness": "0",
            },
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._wait_until_it_takes_jobs()

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _wait_until_it_takes_jobs(self) -> None:
        from ray.job_submission import JobSubmissionClient

        deadline = time.monotonic() + 90
        while True:
            try:
                JobSubmissionClient(self.address).list_jobs()
                return
            except (ConnectionError, RuntimeError):
                if time.monotonic() > deadline or self._process.poll() is not None:
                    text = (self.folder / "head.log").read_text()
                    self.close()
                    raise AssertionError(f"no head:\n{text}") from None
                time.sleep(0.3)


def _free_ports(count: int) -> list[int]:
    """Free ports beyond those that Ray keeps for its workers (10002 to 19999)."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        ports = [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
    assert all(port > 19999 for port in ports)
    return ports
