"""A receiver of webhooks on loopback: it keeps what it gets, and answers as a test wants."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Received(NamedTuple):
    """One request to a receiver."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Receiver:
    """A server whose answers are `status` and `location`, once `may_answer` is set."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.status = 200
        self.location = ""
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.arrived = threading.Semaphore(0)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/hook"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.received.append(Received(self.path, headers, body))
                receiver.arrived.release()
                receiver.may_answer.wait(30)
                with contextlib.suppress(OSError):
                    self.send_response(receiver.status)
                    if receiver.location:
                        self.send_header("Location", receiver.location)
                    self.send_header("Content-Length", "0")
                    self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Say nothing."""

        return Handler


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver that listens until the end of the block."""
    receiver = Receiver()
    receiver._thread.start()
    try:
        yield receiver
    finally:
        receiver.may_answer.set()
        receiver._server.shutdown()
        receiver._thread.join()
        receiver._server.server_close()
