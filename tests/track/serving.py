"""Real MLflow servers for tests, and a gatekeeper before one, as teams put it there."""

from __future__ import annotations

import base64
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """An MLflow server with its own store and proxied artifacts, that can be killed and started again on its port."""

    def __init__(self, folder: Path, store: str | None = None) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.port = folder, free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self._store = store or f"sqlite:///{folder}/mlflow.db"
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "mlflow", "server", "--port", str(self.port), "--workers", "1"]
        places = ["--backend-store-uri", self._store, "--artifacts-destination", str(self.folder / "kept")]
        quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        environment = {**os.environ, **quiet, "DO_NOT_TRACK": "true"}
        environment.pop("MLFLOW_TRACKING_URI", None)
        with (self.folder / "server.log").open("ab") as said:
            self._child = subprocess.Popen(
                [*command, "--serve-artifacts", *places],
                cwd=self.folder, env=environment, start_new_session=True, stdout=said, stderr=said,
            )  # fmt: skip
        for _ in range(480):
            try:
                urllib.request.urlopen(f"{self.uri}/health", timeout=1).read()
            except OSError:
                assert self._child.poll() is None, (self.folder / "server.log").read_text()
                time.sleep(0.25)
            else:
                return
        raise TimeoutError((self.folder / "server.log").read_text())

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self._child is not None:
            if self._child.poll() is None:
                os.killpg(self._child.pid, how)
            self._child.wait(60)
            self._child = None


@contextmanager
def server(folder: Path, store: str | None = None) -> Iterator[Server]:
    made = Server(folder, store)
    try:
        made.start()
        yield made
    finally:
        made.stop(signal.SIGKILL)


Rule = Callable[[str, str, int], int | None]
"""Of method, path and length of the body: the status to refuse with; None passes it on."""


class Gatekeeper:
    """An HTTP proxy before a server, with a rule and a password that can change while it runs."""

    def __init__(self, behind: Server) -> None:
        self.behind = behind
        self.rule: Rule = lambda method, path, length: None
        self.swallow: Rule = self.rule
        """As a rule, but asked after the server has done its work: only the answer is lost."""
        self.password: str | None = None
        self.seen: list[tuple[str, str]] = []
        keeper = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def handle_one(self) -> None:
                keeper.handle(self)

            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = handle_one

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.uri = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def handle(self, asked: BaseHTTPRequestHandler) -> None:
        length = int(asked.headers.get("Content-Length") or 0)
        body = asked.rfile.read(length)
        self.seen.append((asked.command, asked.path))
        refusal = 401 if not self._knows(asked) else self.rule(asked.command, asked.path, length)
        if refusal:
            self._answer(asked, refusal, b"refused", {})
            return
        link = http.client.HTTPConnection("127.0.0.1", self.behind.port, timeout=60)
        kept = {k: v for k, v in asked.headers.items() if k.lower() not in ("host", "connection", "authorization")}
        link.request(asked.command, asked.path, body, kept | {"Host": f"127.0.0.1:{self.behind.port}"})
        answer = link.getresponse()
        data = answer.read()
        link.close()
        lost = self.swallow(asked.command, asked.path, length)
        self._answer(asked, lost or answer.status, data, dict(answer.headers))

    def _knows(self, asked: BaseHTTPRequestHandler) -> bool:
        if self.password is None:
            return True
        wanted = base64.b64encode(f"fox:{self.password}".encode()).decode()
        return asked.headers.get("Authorization") == f"Basic {wanted}"

    def _answer(self, asked: BaseHTTPRequestHandler, status: int, data: bytes, headers: dict[str, str]) -> None:
        asked.send_response(status)
        for name, value in headers.items():
            if name.lower() in ("content-type", "content-disposition"):
                asked.send_header(name, value)
        asked.send_header("Content-Length", str(len(data)))
        asked.end_headers()
        asked.wfile.write(data)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
