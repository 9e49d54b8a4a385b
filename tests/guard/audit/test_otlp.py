"""The audit log to a collector: to whom it was named, and to nobody else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from metier.errors import AuditUnavailable, InvalidArgument
from metier.guard.audit.collector import otlp_endpoint, send_otlp


class Collector(HTTPServer):
    """A collector on this machine, and what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.taken: list[tuple[str, str, bytes]] = []
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.server.taken.append((self.path, self.headers["Content-Type"], body))
        self.send_response(self.server.status)
        if self.server.status == 302:
            self.send_header("Location", f"{self.server.url}/elsewhere")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_every_request_is_posted_as_json(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert send_otlp(["{}", '{"a":"é"}'], collector.url) == 2
    assert collector.taken == [
        ("/v1/logs", "application/json", b"{}"),
        ("/v1/logs", "application/json", '{"a":"é"}'.encode()),
    ]


@pytest.mark.parametrize("status", [302, 400, 503])
def test_what_is_not_taken_is_an_error_and_ends_it(collector: Collector, status: int) -> None:
    collector.status = status
    with pytest.raises(AuditUnavailable, match=str(status)) as caught:
        send_otlp(["{}", "{}"], collector.url)
    assert caught.value.hint
    assert len(collector.taken) == 1


def test_nobody_there_is_an_error(collector: Collector) -> None:
    url = collector.url
    collector.server_close()
    with pytest.raises(AuditUnavailable):
        send_otlp(["{}"], url)


@pytest.mark.each(
    "endpoint",
    [
        "",
        "localhost:4318",
        "file:///etc/passwd",
        "http://",
        "http://example.com/v1/logs",
        "http://127.0.0.1.example.com",
        "http://user:secret@localhost",
        "http://localhost:99999",
        "http://localhost:x",
        "http://localhost/\r\nX: y",
        "http://[::1",
        "ftp://localhost",
    ],
)
def test_an_endpoint_that_is_none_or_that_others_could_listen_to_is_refused(endpoint: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        otlp_endpoint(endpoint)
    assert caught.value.hint


@pytest.mark.each(
    ("endpoint", "address"),
    [
        ("http://localhost:4318", "http://localhost:4318/v1/logs"),
        ("http://[::1]:4318/", "http://[::1]:4318/v1/logs"),
        ("http://127.0.0.2/own/path", "http://127.0.0.2/own/path"),
        ("https://logs.example.com", "https://logs.example.com/v1/logs"),
    ],
)
def test_logs_go_to_the_path_that_otlp_has_for_them_unless_one_is_named(endpoint: str, address: str) -> None:
    assert otlp_endpoint(endpoint) == address
