"""What a job server's refusals are translated into."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pipelines.dispatch.jobs import JobServer, server_address
from pipelines.dispatch.work import FatalError


class Refusing(BaseHTTPRequestHandler):
    """Answers every request as the class was told to."""

    status = 200
    body = "{}"

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.body.encode())

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (401, "Unauthorized: Missing authentication token", "export RAY_AUTH_MODE=token"),
        (403, "Forbidden: Invalid authentication token", "export RAY_AUTH_MODE=token"),
        (404, "not here", "install the cluster's version here"),
        (200, json.dumps({"ray_version": "1.8.0"}), "Ray version 1.8.0 is running on the cluster"),
    ],
)
def test_a_refusal_says_what_to_do(
    url: str, monkeypatch: pytest.MonkeyPatch, status: int, body: str, told: str
) -> None:
    monkeypatch.setattr(Refusing, "status", status)
    monkeypatch.setattr(Refusing, "body", body)
    with pytest.raises(FatalError) as caught:
        JobServer(url)
    assert f"job server {url}: " in str(caught.value)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("http://127.0.0.1:1", "nothing answers at 127.0.0.1:1"),
        ("ray://head:10001", "is not the address of a job server, which is http://HEAD:8265"),
        ("http://", "is not the address of a job server"),
    ],
)
def test_an_address_without_a_job_server_is_explained(address: str, told: str) -> None:
    with pytest.raises(FatalError, match=told):
        JobServer(address)


def test_another_version_of_ray_is_remarked_on(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Refusing, "body", json.dumps({"ray_version": "2.50.0"}))
    assert "runs Ray 2.50.0 and this machine" in (JobServer(url).version_note or "")


def test_an_address_that_is_given_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_API_SERVER_ADDRESS", raising=False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert server_address(None) == "http://127.0.0.1:8265"
    monkeypatch.setenv("RAY_ADDRESS", "http://b:8265/")
    assert server_address(None) == "http://b:8265"
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", "http://a:8265")
    assert server_address(None) == "http://a:8265"
    assert server_address("https://c") == "https://c"
    assert server_address("c:8265") == "http://c:8265"
