"""Servers in the place of W&B's, for its real client: one that answers as far as a run needs it, one that never does."""

import gzip
import json
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class HangingServer:
    """Accepts connections and never answers."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._held: list[Any] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                self._held.append(self._socket.accept())
            except OSError:
                return


class AnsweringServer:
    """Keeps the history and the summary of one run and tells them to a client that resumes it."""

    def __init__(self) -> None:
        self.runs: set[str] = set()
        self.history: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *words: Any) -> None: ...

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                answer = json.dumps(server._answer(self.path, body)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_PUT = do_POST

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def _answer(self, path: str, body: bytes) -> dict[str, Any]:
        if "file_stream" in path:
            for name, file in json.loads(body).get("files", {}).items():
                rows = [json.loads(line) for line in file["content"]]
                if "history" in name:
                    self.history += rows
                if "summary" in name:
                    self.summary |= rows[-1]
            return {"exitcode": None, "limits": {}}
        if not path.endswith("/graphql"):
            return {}
        question = json.loads(body)
        name = re.search(r"(?:query|mutation)\s+(\w+)", question["query"])
        return {"data": self._data(name[1] if name else "", question.get("variables") or {})}

    def _data(self, name: str, variables: dict[str, Any]) -> dict[str, Any]:
        project = {"id": "1", "name": "mathlete", "entity": {"id": "2", "name": "me"}}
        match name:
            case "UpsertBucket":
                known = variables["name"] in self.runs
                self.runs.add(variables["name"])
                bucket = {
                    "id": "3",
                    "name": variables["name"],
                    "displayName": "run",
                    "config": "{}",
                    "project": project,
                }
                bucket["historyLineCount"] = len(self.history)
                return {"upsertBucket": {"bucket": bucket, "inserted": not known}}
            case "RunResumeStatus":
                return {"model": {**project, "bucket": self._bucket(variables["name"])}}
            case "CreateRunFiles":
                files = [{"name": file, "uploadUrl": f"{self.address}/upload/{file}"} for file in variables["files"]]
                return {"createRunFiles": {"runID": "3", "uploadHeaders": [], "files": files}}
        return {}

    def _bucket(self, name: str) -> dict[str, Any] | None:
        if name not in self.runs:
            return None
        return {
            "name": name,
            "historyLineCount": len(self.history),
            "eventsLineCount": 0,
            "logLineCount": 0,
            "historyTail": json.dumps([json.dumps(row) for row in self.history[-1:]]),
            "eventsTail": "[]",
            "summaryMetrics": json.dumps(self.summary),
            "config": "{}",
            "tags": [],
            "wandbConfig": '{"t": 1}',  # where it is empty the client takes the run for one that never began
        }
