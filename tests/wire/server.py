"""A model on the wire: a server that answers as a script says, behind a proxy that keeps the bytes of every request."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

from tests.npm_packages import npm_command

Fault = Literal["ratelimit", "drop", "malformed", "disconnect"]
"""What a provider may do instead of answering: 429, 500, no JSON, nothing at all."""

TIMEOUT = 20.0
# The server ends when its input does, so it cannot outlive the tests however these end.
_ENDS_WITH_INPUT = 'data:text/javascript,process.stdin.on("end",()=>process.exit(0)).resume()'


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it was sent."""

    path: str
    body: bytes

    @property
    def json(self) -> Any:
        """The body; the order of keys is that of the bytes."""
        return json.loads(self.body)


class Recorder(ThreadingHTTPServer):
    """Passes requests on and keeps them. A fault can be planned for one of the next requests."""

    def __init__(self, upstream: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = upstream
        self.requests: list[Request] = []
        self.once: dict[bytes, Callable[[], object]] = {}
        """What is done as a request has some bytes for the first time, before it is answered."""
        self._faults: dict[int, Fault] = {}

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    def begin(self, faults: dict[int, Fault] | None = None) -> None:
        """Forget what was recorded; `faults` says which of the requests to come fail, from 0, and how."""
        self.requests = []
        self._faults = dict(faults or {})

    def headers_for(self, number: int) -> list[tuple[str, str]]:
        """What the model is told to do with a request beside answering it."""
        fault = self._faults.get(number)
        return [] if fault is None else [(f"X-AIMock-Chaos-{fault}", "1")]


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client, with one of its own to the model: the end of one is the end of the other."""

    server: Recorder
    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT

    def setup(self) -> None:
        super().setup()
        self._upstream = socket.create_connection(("127.0.0.1", self.server.upstream), TIMEOUT)
        self._answering = threading.Thread(target=self._answer, daemon=True)
        self._answering.start()

    def do_POST(self) -> None:
        """Keep a request and pass it on."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        extra = self.server.headers_for(len(self.server.requests))
        self.server.requests.append(Request(self.path, body))
        for marker in [one for one in self.server.once if one in body]:
            self.server.once.pop(marker)()
        head = "".join(f"{name}: {value}\r\n" for name, value in [*self.headers.items(), *extra])
        self._upstream.sendall(f"POST {self.path} HTTP/1.1\r\n{head}\r\n".encode() + body)

    def _answer(self) -> None:
        """Pass on every byte of the answers as it comes."""
        with suppress(OSError):
            while data := self._upstream.recv(65536):
                self.connection.sendall(data)
            self.connection.shutdown(socket.SHUT_RDWR)

    def finish(self) -> None:
        with self._upstream, suppress(OSError):
            self._upstream.shutdown(socket.SHUT_RDWR)
        self._answering.join(TIMEOUT)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def recorded_model(fixtures: list[dict[str, Any]], folder: Path) -> Iterator[Recorder]:
    """A model that answers as fixtures say, for as long as the block lasts."""
    (folder / "fixtures.json").write_text(json.dumps({"fixtures": fixtures}))
    node, program = npm_command("llmock")
    command = [node, "--import", _ENDS_WITH_INPUT, program, "--port", "0", "--fixtures", str(folder), "--strict"]
    environment = {**os.environ, "HOME": str(folder), "AIMOCK_STRICT_TURN_INDEX": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, env=environment) as process:
        try:
            yield from _recording(_port(process))
        finally:
            process.kill()


def _port(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None
    watchdog = threading.Timer(TIMEOUT, process.kill)
    watchdog.start()
    try:
        for line in process.stdout:
            if b"listening on" in line:
                # What it says from now on is read, or it would stop when the pipe is full.
                threading.Thread(target=process.stdout.read, daemon=True).start()
                return int(line.rsplit(b":", 1)[1])
    finally:
        watchdog.cancel()
    raise AssertionError("the model did not start")


def _recording(upstream: int) -> Iterator[Recorder]:
    with Recorder(upstream) as recorder:
        thread = threading.Thread(target=recorder.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield recorder
        finally:
            recorder.shutdown()
            thread.join(TIMEOUT)
