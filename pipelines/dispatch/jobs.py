"""Ray's job server: hand in a job, follow its log, learn how it ended."""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import ray
import requests
from ray.exceptions import AuthenticationError
from ray.job_submission import JobStatus, JobSubmissionClient

from pipelines.dispatch.connect import check_reachable
from pipelines.dispatch.work import FatalError
from pipelines.exit_codes import ExitCode

DEFAULT_ADDRESS = "http://127.0.0.1:8265"

_CHATTY = (
    "ray._private.runtime_env.packaging",
    "ray._private.runtime_env.working_dir",
    "ray.dashboard.modules.dashboard_sdk",
    "ray.dashboard.modules.job.sdk",
)
_RECONNECTS = 5
_SETTLE_S = 30.0
"""The status may lag behind the end of the log."""


def server_address(given: str | None) -> str:
    """The job server's URL: as given, else that of RAY_API_SERVER_ADDRESS or RAY_ADDRESS, else this machine's."""
    address = given or os.environ.get("RAY_API_SERVER_ADDRESS") or os.environ.get("RAY_ADDRESS") or DEFAULT_ADDRESS
    return (address if "://" in address else f"http://{address}").rstrip("/")


class JobServer:
    """A connection to the job server at `address`, an http or https URL. All methods raise FatalError that says what to
    do when the server cannot be reached or refuses."""

    def __init__(self, address: str) -> None:
        self.address = address
        url = urlsplit(address)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise FatalError(
                f"{address}: is not the address of a job server, which is http://HEAD:8265 (the port of Ray's dashboard)"
            )
        # Ray lets this variable overrule the address that it is given.
        os.environ["RAY_API_SERVER_ADDRESS"] = address
        for name in _CHATTY:
            logging.getLogger(name).setLevel(logging.ERROR)
        with self._explained():
            check_reachable(url.hostname, url.port or (443 if url.scheme == "https" else 80))
            self._client = JobSubmissionClient(address)

    @property
    def version_note(self) -> str | None:
        """A remark where the cluster runs another Ray than this machine."""
        there = self._client._server_ray_version
        if there == ray.__version__:
            return None
        return f"the cluster runs Ray {there} and this machine {ray.__version__}; the job runs with the cluster's"

    def submit(self, entrypoint: str, runtime_env: Mapping[str, Any], name: str | None) -> str:
        """Upload the working directory and start the job; returns its id."""
        with self._explained():
            return self._client.submit_job(entrypoint=entrypoint, runtime_env=dict(runtime_env), submission_id=name)

    def follow(self, job: str, write: Callable[[str], Any]) -> None:
        """Pass on what the job prints until it ends. A broken connection is taken up again where it broke."""
        passed_on = 0

        async def tail() -> None:
            nonlocal passed_on
            position = 0  # the server starts again from the log's beginning
            async for text in self._client.tail_job_logs(job):
                position += len(text)
                new = text[max(0, len(text) - max(0, position - passed_on)) :]
                if new:
                    write(new)
                passed_on = max(passed_on, position)

        with self._explained():
            for attempt in range(_RECONNECTS + 1):
                try:
                    asyncio.run(tail())
                except (RuntimeError, aiohttp.ClientError, ConnectionError):
                    if attempt == _RECONNECTS:
                        raise
                    time.sleep(2**attempt)
                else:
                    if self._client.get_job_status(job).is_terminal():
                        return
                    time.sleep(0.5)

    def outcome(self, job: str) -> tuple[str, int]:
        """How a job that is over ended, in words, and the exit code that says the same: the driver's own where there is
        one, PREEMPTED for a job that was stopped."""
        with self._explained():
            deadline = time.monotonic() + _SETTLE_S
            while not (details := self._client.get_job_info(job)).status.is_terminal():
                if time.monotonic() > deadline:
                    raise FatalError(f"the log of {job} ended, but the job is still {details.status}")
                time.sleep(0.5)
        if details.status == JobStatus.SUCCEEDED:
            return "succeeded", ExitCode.COMPLETE
        if details.status == JobStatus.STOPPED:
            return "was stopped", ExitCode.PREEMPTED
        code = details.driver_exit_code
        if code is None:
            return f"failed before it ran: {_first_lines(details.message)}", ExitCode.ERROR
        return f"failed with exit code {code}", (128 - code if code < 0 else code) or ExitCode.ERROR

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (ConnectionError, RuntimeError, ValueError, OSError, AuthenticationError, aiohttp.ClientError) as error:
            raise FatalError(f"job server {self.address}: {_advice(self.address, error)}") from error


def _advice(address: str, error: Exception) -> str:
    whole = " ".join(str(error).split())
    text, lowered = whole[:400], whole.lower()
    if isinstance(error, AuthenticationError) or "status code 401" in lowered or "status code 403" in lowered:
        return (
            f"it asks for a token ({text.split('. ')[0]}). `export RAY_AUTH_MODE=token`, and put the cluster's token into "
            "~/.ray/auth_token or the file that RAY_AUTH_TOKEN_PATH names."
        )
    if "status code 413" in lowered:
        return f"the package is too large for it ({text}). Leave files out with .rayignore."
    if "version" in lowered:
        return f"{text} This machine has Ray {ray.__version__}; install the cluster's version here."
    if "already exists" in lowered:
        return "it knows a job of that name. Choose another --submission-id: it names one start; what resumes is the run folder."
    if isinstance(error, ConnectionError | requests.exceptions.RequestException | aiohttp.ClientError):
        port = " 6379 is the port of Ray itself." if address.endswith(":6379") else ""
        return (
            f"{text}. It is the dashboard of the head node, port 8265 unless set otherwise.{port} From outside a "
            "Kubernetes cluster: `kubectl port-forward service/NAME-head-svc 8265:8265`, then http://127.0.0.1:8265."
        )
    return text


def _first_lines(text: str | None) -> str:
    return " ".join((text or "no reason given").split())[:600]
