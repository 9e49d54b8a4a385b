"""What a restricted job reaches is on its list, whatever it sends to the proxy."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier._hosts import HostList, canonical_host
from metier.errors import InvalidArgument
from metier.run.proxy import AllowListProxy, ProxyDecision, ProxyLimits, proxy_variables
from metier.run.proxy_request import BadRequest, Body, parse_request

PATIENCE = 20
"""Seconds that no healthy machine takes."""


def listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0), backlog=128)


class Server:
    """A server on this machine that hands each connection to a function, in a thread of its own."""

    def __init__(self, handle: Callable[[socket.socket], None]) -> None:
        self._handle = handle
        self._socket = listening()
        self._threads: list[threading.Thread] = []
        self._is_closing = False
        self.connections = 0
        self.port: int = self._socket.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept)
        self._acceptor.start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            if self._is_closing:
                connection.close()
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE)
        with connection, contextlib.suppress(OSError):
            self._handle(connection)

    def close(self) -> None:
        self._is_closing = True
        socket.create_connection(("127.0.0.1", self.port), PATIENCE).close()
        self._acceptor.join(PATIENCE)
        for thread in self._threads:
            thread.join(PATIENCE)
        self._socket.close()


def read_head(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65_536)
        if not chunk:
            return data
        data += chunk
    return data


def read_all(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65_536), b""))


def tell_request(connection: socket.socket) -> None:
    """Answers with the request as it came, and closes."""
    seen = read_head(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + seen)


def echo(connection: socket.socket) -> None:
    while chunk := connection.recv(65_536):
        connection.sendall(chunk)


def swallow(connection: socket.socket) -> None:
    read_all(connection)


@contextlib.contextmanager
def server(handle: Callable[[socket.socket], None] = tell_request) -> Iterator[Server]:
    running = Server(handle)
    try:
        yield running
    finally:
        running.close()


class Door:
    """A proxy with its port and what it decided."""

    def __init__(self, hosts: list[str], **more: Any) -> None:
        listener = listening()
        self.port: int = listener.getsockname()[1]
        self.decisions: list[ProxyDecision] = []
        self.proxy = AllowListProxy(listener, hosts, on_decision=self.decisions.append, **more)

    @property
    def reasons(self) -> list[str]:
        return [decision.reason for decision in self.decisions]

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE)

    def ask(self, data: bytes) -> bytes:
        """All that is answered to something."""
        with self.connect() as client:
            # Who is refused early may close before all was sent.
            with contextlib.suppress(OSError):
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
            return read_all(client)

    def get(self, url: str, host: str = "") -> bytes:
        host = host or url.split("/")[2]
        return self.ask(f"GET {url} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())

    def tunnel(self, host: str) -> tuple[socket.socket, bytes]:
        client = self.connect()
        client.sendall(f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        return client, read_head(client)


@contextlib.contextmanager
def door(hosts: list[str], **more: Any) -> Iterator[Door]:
    opened = Door(hosts, **more)
    with opened.proxy:
        yield opened


def never(host: str, port: int) -> list[str]:
    raise AssertionError(f"{host}:{port} was looked up")


def here(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


def anywhere(address: str) -> bool:
    return True


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def wait_until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.005)
    return False


def test_a_listed_host_is_reached_by_a_plain_request() -> None:
    with server() as web, door([f"web.example:{web.port}"], resolve=here, permits_address=anywhere) as way:
        answer = way.get(f"http://web.example:{web.port}/a?b=c")
    assert answer.endswith(f"GET /a?b=c HTTP/1.1\r\nHost: web.example:{web.port}\r\nConnection: close\r\n\r\n".encode())
    assert way.decisions == [ProxyDecision(host="web.example", port=web.port, allowed=True, reason="listed")]


def test_a_listed_host_is_reached_through_a_tunnel() -> None:
    with server(echo) as web, door([f"*.example:{web.port}"], resolve=here, permits_address=anywhere) as way:
        client, head = way.tunnel(f"A.Web.Example.:{web.port}")
        with client:
            assert status(head) == 200
            client.sendall(b"\x16\x03\x01 hello")
            client.shutdown(socket.SHUT_WR)
            assert read_all(client) == b"\x16\x03\x01 hello"
    assert way.decisions == [ProxyDecision(host="a.web.example", port=web.port, allowed=True, reason="listed")]


@pytest.mark.parametrize("hosts", [[], ["web.example"], ["*.other.example"], ["*.evil.example"]], ids=str)
@pytest.mark.each("target", ["evil.example", "notweb.example", "other.example", "8.8.8.8", "[2600::1]"])
def test_all_others_are_refused_and_not_even_looked_up(hosts: list[str], target: str) -> None:
    with door(hosts, resolve=never) as way:
        answer = way.get(f"http://{target}/")
        assert (status(answer), b"not on the list" in answer) == (403, True)
        client, head = way.tunnel(f"{target}:443")
        client.close()
        assert status(head) == 403
    assert way.reasons == ["not-listed", "not-listed"]
    assert not any(decision.allowed for decision in way.decisions)


@pytest.mark.each(
    ("entry", "request_line", "reason"),
    [
        ("web.example", "CONNECT web.example:443", "unresolved"),
        ("web.example", "CONNECT web.example:80", "port"),
        ("web.example", "CONNECT web.example:22", "port"),
        ("web.example", "GET http://web.example/", "unresolved"),
        ("web.example", "GET http://web.example:443/", "unresolved"),
        ("web.example", "GET http://web.example:8080/", "port"),
        ("web.example:8080", "GET http://web.example:8080/", "unresolved"),
        ("web.example:8080", "GET http://web.example/", "port"),
        ("web.example:8080", "CONNECT web.example:443", "port"),
    ],
)
def test_only_ports_that_are_usual_or_listed_are_reached(entry: str, request_line: str, reason: str) -> None:
    with door([entry], resolve=lambda host, port: []) as way:
        way.ask(f"{request_line} HTTP/1.0\r\n\r\n".encode())
    assert way.reasons == [reason]


@pytest.mark.each("address", ["127.0.0.1", "::1", "10.1.2.3", "169.254.169.254", "::ffff:127.0.0.1", "0.0.0.0"])
def test_a_listed_name_leads_to_no_private_address(address: str) -> None:
    with server() as web:
        with door([f"web.example:{web.port}"], resolve=lambda host, port: [address]) as way:
            answer = way.get(f"http://web.example:{web.port}/")
        assert (status(answer), way.reasons, web.connections) == (403, ["address"], 0)
        assert address.encode() not in answer


def test_of_several_addresses_only_those_that_are_permitted_are_tried() -> None:
    judged: list[str] = []

    def permits(address: str) -> bool:
        judged.append(address)
        return address == "127.0.0.1"

    with server() as web:
        found = ["127.0.0.2", "127.0.0.1"]
        with door([f"web.example:{web.port}"], resolve=lambda host, port: found, permits_address=permits) as way:
            assert status(way.get(f"http://web.example:{web.port}/")) == 200
    assert judged == found


def test_a_name_is_looked_up_once_and_what_was_judged_is_connected_to() -> None:
    with server() as web:
        answers = iter([["127.0.0.1"], ["10.0.0.1"]])
        looked_up: list[str] = []

        def resolve(host: str, port: int) -> list[str]:
            looked_up.append(host)
            return next(answers)

        with door([f"web.example:{web.port}"], resolve=resolve, permits_address=anywhere) as way:
            assert status(way.get(f"http://web.example:{web.port}/")) == 200
        assert looked_up == ["web.example"]


def test_an_address_that_does_not_answer_leaves_the_next() -> None:
    with (
        server() as web,
        door([f"x.example:{web.port}"], resolve=lambda h, p: ["::1", "127.0.0.1"], permits_address=anywhere) as way,
    ):
        assert status(way.get(f"http://x.example:{web.port}/")) == 200


def test_a_listed_address_was_named_on_purpose() -> None:
    with server() as web, door([f"127.0.0.1:{web.port}"], resolve=never) as way:
        assert status(way.get(f"http://127.0.0.1:{web.port}/")) == 200
        assert status(way.get(f"http://127.0.0.2:{web.port}/")) == 403
        assert status(way.get(f"http://[::ffff:127.0.0.1]:{web.port}/")) == 403
    assert web.connections == 1


def test_who_cannot_be_found_or_does_not_answer_is_a_bad_gateway() -> None:
    def fail(host: str, port: int) -> list[str]:
        raise socket.gaierror(-2, "unknown")

    with door(["web.example"], resolve=fail) as way:
        assert status(way.get("http://web.example/")) == 502
    with listening() as unused:
        port = unused.getsockname()[1]
    with door([f"127.0.0.1:{port}"]) as way:
        assert status(way.get(f"http://127.0.0.1:{port}/")) == 502
    assert way.reasons == ["listed"]


def test_a_redirect_to_somebody_else_is_another_request() -> None:
    def redirect(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n")

    with server(redirect) as web, door([f"127.0.0.1:{web.port}"]) as way:
        answer = way.get(f"http://127.0.0.1:{web.port}/")
        assert (status(answer), b"evil.example" in answer) == (302, True)
        assert status(way.get("http://evil.example/")) == 403


def test_what_is_passed_on_is_written_anew() -> None:
    with server() as web, door([f"127.0.0.1:{web.port}"]) as way:
        answer = way.ask(
            f"GET HTTP://127.0.0.1:{web.port} HTTP/1.1\r\n"
            f"host: 127.0.0.1:{web.port}\r\nProxy-Authorization: Basic eDp5\r\nProxy-Connection: keep-alive\r\n"
            "Connection: keep-alive, X-Secret\r\nX-Secret: 1\r\nKeep-Alive: 9\r\nTE: trailers\r\nUpgrade: h2c\r\n"
            "Trailer: x\r\nAccept:   */*  \r\nX-Name: \xe9\r\n\r\n".encode("latin-1")
        )
    assert answer.partition(b"\r\n\r\n")[2] == (
        f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{web.port}\r\nAccept: */*\r\nX-Name: \xe9\r\nConnection: close\r\n\r\n"
    ).encode("latin-1")


@pytest.mark.each(
    ("headers", "body", "passed"),
    [
        ("Content-Length: 5\r\n", b"hello", b"hello"),
        ("Content-Length: 5\r\n", b"helloGET http://evil.example/ HTTP/1.1\r\n\r\n", b"hello"),
        ("Transfer-Encoding: Chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", b"1\r\nh\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n", b"1\r\nh\r\n0\r\n\r\n"),
        ("", b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", b""),
    ],
)
def test_nothing_after_the_body_is_passed_on(headers: str, body: bytes, passed: bytes) -> None:
    seen: list[bytes] = []
    arrived = threading.Event()

    def take(connection: socket.socket) -> None:
        data = read_head(connection)
        while len(data.partition(b"\r\n\r\n")[2]) < len(passed):
            data += connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        seen.append(data.partition(b"\r\n\r\n")[2] + read_all(connection))
        arrived.set()

    with server(take) as web, door([f"127.0.0.1:{web.port}"]) as way:
        host = f"127.0.0.1:{web.port}"
        assert status(way.ask(f"POST http://{host}/ HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n".encode() + body)) == 200
        assert arrived.wait(PATIENCE)
    assert seen == [passed]
    assert len(way.decisions) == 1


def test_a_body_that_comes_in_pieces_goes_on_as_it_comes() -> None:
    def count(connection: socket.socket) -> None:
        data = read_head(connection)
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not data.endswith(b"0\r\n\r\n"):
            data += connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n%d" % len(data.partition(b"\r\n\r\n")[2]))

    with server(count) as web, door([f"127.0.0.1:{web.port}"]) as way, way.connect() as client:
        host = f"127.0.0.1:{web.port}"
        client.sendall(
            f"PUT http://{host}/ HTTP/1.1\r\nHost: {host}\r\nExpect: 100-continue\r\n"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        assert b"100 Continue" in read_head(client)
        pieces = [b"3", b"\r", b"\nab", b"c\r", b"\n", b"FFFF\r\n", b"x" * 65_535, b"\r\n", b"0", b"\r\n\r", b"\n"]
        for piece in pieces:
            client.sendall(piece)
        assert read_all(client).endswith(b"%d" % len(b"".join(pieces)))


@pytest.mark.each(
    "body",
    [
        b"5\r\nhello0\r\n\r\n", b"g\r\n", b"5;x=y\r\nhello\r\n0\r\n\r\n", b"5\nhello\r\n", b"123456789\r\n", b"-1\r\n",
        b"0x5\r\nhello", b"\r\n", b"5 \r\nhello", b"0\r\nX: y\r\n\r\n", b"0\r\n\n", b"5\r\nhelloX", b"1\r\nh\rX",
    ],
)  # fmt: skip
def test_a_body_in_bad_chunks_is_refused(body: bytes) -> None:
    with server(swallow) as web, door([f"127.0.0.1:{web.port}"]) as way:
        host = f"127.0.0.1:{web.port}"
        head = f"POST http://{host}/ HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        assert status(way.ask(head + body)) == 400
    assert way.reasons == ["listed", "malformed"]


GOOD = "Host: web.example\r\n"


@pytest.mark.each(
    "request_text",
    [
        "GET http://web.example@127.0.0.1/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        "GET http://web.example:80@127.0.0.1/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        "GET http://user:pass@web.example/ HTTP/1.1\r\n" + GOOD + "\r\n",
        "GET http://127.0.0.1\\@web.example/ HTTP/1.1\r\n" + GOOD + "\r\n",
        "GET http://web.example#@127.0.0.1/ HTTP/1.1\r\n" + GOOD + "\r\n",
        "GET http://web.example/#x HTTP/1.1\r\n" + GOOD + "\r\n",
        "GET http://web%2eexample/ HTTP/1.1\r\n" + GOOD + "\r\n",
        "GET http://web.example HTTP/1.1\r\nHost: other.example\r\n\r\n",
        "GET http://web.example/ HTTP/1.1\r\nHost: web.example:8080\r\n\r\n",
        "GET http://web.example/ HTTP/1.1\r\nHost: web.example\r\nHost: web.example\r\n\r\n",
        "GET http://web.example/ HTTP/1.1\r\nHost:\r\n\r\n",
        "GET http://web.example/ HTTP/1.1\r\n\r\n",
        "GET http://127.1/ HTTP/1.1\r\nHost: 127.1\r\n\r\n",
        "GET http://2130706433/ HTTP/1.1\r\nHost: 2130706433\r\n\r\n",
        "GET http:///x HTTP/1.1\r\n" + GOOD + "\r\n",
        "GET http://web.example:99999/ HTTP/1.1\r\n" + GOOD + "\r\n",
        "GET http://web.example:/ HTTP/1.1\r\n" + GOOD + "\r\n",
        "GET https://web.example/ HTTP/1.1\r\n" + GOOD + "\r\n",
        "GET ftp://web.example/ HTTP/1.1\r\n" + GOOD + "\r\n",
        "GET / HTTP/1.1\r\n" + GOOD + "\r\n",
        "GET web.example HTTP/1.1\r\n" + GOOD + "\r\n",
        "GET http://web.example/a b HTTP/1.1\r\n" + GOOD + "\r\n",
        "GET http://web.example/é HTTP/1.1\r\n" + GOOD + "\r\n",
        "get http://web.example/ HTTP/1.1\r\n" + GOOD + "\r\n",
        "TRACE http://web.example/ HTTP/1.1\r\n" + GOOD + "\r\n",
        "ABSURD http://web.example/ HTTP/1.1\r\n" + GOOD + "\r\n",
        "G" * 50 + " http://web.example/ HTTP/1.1\r\n" + GOOD + "\r\n",
        "GET http://web.example/ HTTP/2.0\r\n" + GOOD + "\r\n",
        "GET http://web.example/ HTTP/1.10\r\n" + GOOD + "\r\n",
        "GET http://web.example/\r\n" + GOOD + "\r\n",
        " GET http://web.example/ HTTP/1.1\r\n" + GOOD + "\r\n",
        "\r\nGET http://web.example/ HTTP/1.1\r\n" + GOOD + "\r\n",
        "GET  http://web.example/ HTTP/1.1\r\n" + GOOD + "\r\n",
        "GET http://web.example/ HTTP/1.1\n" + GOOD + "\r\n",
        "GET http://web.example/ HTTP/1.1\n\n",
        "GET http://web.example/ HTTP/1.1\rHost: web.example\r\n\r\n",
        "GET http://web.example/ HTTP/1.1\r\nHost: web.example\0\r\n\r\n",
        "GET http://web.example/ HTTP/1.1\r\n" + GOOD + "X: a\r\n b\r\n\r\n",
        "GET http://web.example/ HTTP/1.1\r\n" + GOOD + "X : a\r\n\r\n",
        "GET http://web.example/ HTTP/1.1\r\n" + GOOD + "no colon\r\n\r\n",
        "GET http://web.example/ HTTP/1.1\r\n" + GOOD + ": a\r\n\r\n",
        "GET http://web.example/ HTTP/1.1\r\n" + GOOD + "X: \x01\r\n\r\n",
        "GET http://web.example/ HTTP/1.1\r\n" + GOOD + "Connection: Host\r\n\r\n",
        "POST http://web.example/ HTTP/1.1\r\n" + GOOD + "Content-Length: 1\r\nConnection: content-length\r\n\r\n",
        "POST http://web.example/ HTTP/1.1\r\n" + GOOD + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST http://web.example/ HTTP/1.1\r\n" + GOOD + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "POST http://web.example/ HTTP/1.1\r\n" + GOOD + "Content-Length: 1, 1\r\n\r\n",
        "POST http://web.example/ HTTP/1.1\r\n" + GOOD + "Content-Length: +1\r\n\r\n",
        "POST http://web.example/ HTTP/1.1\r\n" + GOOD + "Content-Length: -1\r\n\r\n",
        "POST http://web.example/ HTTP/1.1\r\n" + GOOD + "Content-Length: 0x1\r\n\r\n",
        "POST http://web.example/ HTTP/1.1\r\n" + GOOD + "Content-Length:\r\n\r\n",
        "POST http://web.example/ HTTP/1.1\r\n" + GOOD + "Transfer-Encoding: gzip, chunked\r\n\r\n",
        "POST http://web.example/ HTTP/1.1\r\n" + GOOD + "Transfer-Encoding: identity\r\n\r\n",
        "POST http://web.example/ HTTP/1.1\r\n" + GOOD + "Transfer-Encoding: xchunked\r\n\r\n",
        "POST http://web.example/ HTTP/1.1\r\n" + GOOD + "Transfer-Encoding: chunked\r\n" * 2 + "\r\n",
        "POST http://web.example/ HTTP/1.0\r\n" + GOOD + "Transfer-Encoding: chunked\r\n\r\n",
        "CONNECT web.example HTTP/1.1\r\n" + GOOD + "\r\n",
        "CONNECT web.example:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n",
        "CONNECT web.example:443 HTTP/1.1\r\nHost: web.example:80\r\n\r\n",
        "CONNECT http://web.example:443 HTTP/1.1\r\n" + GOOD + "\r\n",
        "CONNECT user@web.example:443 HTTP/1.1\r\n" + GOOD + "\r\n",
        "CONNECT web.example:443/x HTTP/1.1\r\n" + GOOD + "\r\n",
        "CONNECT web.example:0 HTTP/1.1\r\n" + GOOD + "\r\n",
        "CONNECT web.example:443 HTTP/1.1\r\n" + GOOD + "Content-Length: 4\r\n\r\n",
        "GET http://web.example/ HTTP/1.1\r\nHost: web.ex",
        "\x16\x03\x01\x00\xa5\x01\x00\x00",
        "\x05\x01\x00",
        "\x04\x01\x00\x50\x7f\x00\x00\x01\x00",
        "\r\n\r\n",
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(request_text: str) -> None:
    with door(["web.example", "*.example", "127.0.0.1"], resolve=never) as way:
        answer = way.ask(request_text.encode("latin-1"))
        assert status(answer) == 400
    assert way.decisions == [ProxyDecision(host="", port=0, allowed=False, reason="malformed")]


@pytest.mark.each("data", [b"\x16\x03\x01\x00\xa5\x01\x00\x00", b"\x05\x01\x00", b"GET http://web.example/ HTTP/1.1\n"])
def test_what_can_become_no_request_is_not_waited_for(data: bytes) -> None:
    with door(["web.example"], limits=ProxyLimits(head_seconds=PATIENCE)) as way, way.connect() as client:
        client.sendall(data)
        assert status(read_all(client)) == 400


@pytest.mark.parametrize(
    "request_text",
    ["GET http://web.example/" + "x" * 20_000, "GET http://web.example/ HTTP/1.1\r\n" + "X: y\r\n" * 200 + "\r\n"],
    ids=["long", "many"],
)
def test_a_head_is_bounded(request_text: str) -> None:
    with door(["web.example"], resolve=never) as way:
        assert status(way.ask(request_text.encode())) == 431
    assert way.reasons == ["malformed"]


def test_who_says_nothing_gets_no_answer() -> None:
    with door(["web.example"]) as way:
        assert way.ask(b"") == b""
    assert way.decisions == []


def test_what_cannot_be_recorded_is_not_let_through() -> None:
    def fail(decision: ProxyDecision) -> None:
        raise OSError("the disk is full")

    with server() as web:
        listener = listening()
        with (
            AllowListProxy(listener, [f"127.0.0.1:{web.port}"], on_decision=fail),
            socket.create_connection(listener.getsockname(), PATIENCE) as client,
        ):
            client.sendall(f"CONNECT 127.0.0.1:{web.port} HTTP/1.1\r\n\r\n".encode())
            assert status(read_all(client)) == 503
        assert web.connections == 0


def test_a_proxy_needs_nobody_who_listens_to_its_decisions() -> None:
    with server() as web:
        listener = listening()
        with (
            AllowListProxy(listener, [f"127.0.0.1:{web.port}"]),
            socket.create_connection(listener.getsockname(), PATIENCE) as client,
        ):
            client.sendall(f"GET http://127.0.0.1:{web.port}/ HTTP/1.0\r\n\r\n".encode())
            assert status(read_all(client)) == 200


def test_a_list_that_is_none_is_refused_at_once() -> None:
    with listening() as listener, pytest.raises(InvalidArgument):
        AllowListProxy(listener, ["https://web.example/"])


def test_a_tunnel_carries_much_in_both_directions_at_once() -> None:
    data = os.urandom(65_536) * 96
    with server(echo) as web, door([f"127.0.0.1:{web.port}"]) as way:
        client, _ = way.tunnel(f"127.0.0.1:{web.port}")
        with client:

            def send() -> None:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)

            sender = threading.Thread(target=send)
            sender.start()
            assert read_all(client) == data
            sender.join(PATIENCE)


def test_what_is_sent_along_with_the_request_for_a_tunnel_goes_through_it() -> None:
    with server(echo) as web, door([f"127.0.0.1:{web.port}"]) as way:
        answer = way.ask(f"CONNECT 127.0.0.1:{web.port} HTTP/1.1\r\n\r\nearly".encode())
        assert answer.endswith(b"\r\n\r\nearly")


def test_a_tunnel_half_closed_by_the_server_still_carries_what_the_client_sends() -> None:
    received: list[bytes] = []

    def bye_first(connection: socket.socket) -> None:
        connection.sendall(b"bye")
        connection.shutdown(socket.SHUT_WR)
        received.append(read_all(connection))

    with server(bye_first) as web, door([f"127.0.0.1:{web.port}"]) as way:
        client, head = way.tunnel(f"127.0.0.1:{web.port}")
        with client:
            # The server speaks first, and so its words may come along with the proxy's.
            assert (head + read_all(client)).endswith(b"\r\n\r\nbye")
            client.sendall(b"one last thing")
            client.shutdown(socket.SHUT_WR)
            assert wait_until(lambda: bool(received))
    assert received == [b"one last thing"]


def test_an_answer_that_comes_before_the_body_was_sent_arrives() -> None:
    def refuse(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 413 Content Too Large\r\n\r\nno")

    with server(refuse) as web, door([f"127.0.0.1:{web.port}"]) as way, way.connect() as client:
        host = f"127.0.0.1:{web.port}"
        client.sendall(f"POST http://{host}/ HTTP/1.1\r\nHost: {host}\r\nContent-Length: 99\r\n\r\n".encode())
        assert status(read_all(client)) == 413


def test_a_request_that_comes_too_slowly_is_ended() -> None:
    with door(["web.example"], limits=ProxyLimits(head_seconds=0.1)) as way, way.connect() as client:
        client.sendall(b"GET http://web.exam")
        assert status(read_all(client)) == 408
    assert way.reasons == ["malformed"]


def test_a_request_may_come_byte_by_byte() -> None:
    with server() as web, door([f"127.0.0.1:{web.port}"]) as way, way.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in f"GET http://127.0.0.1:{web.port}/ HTTP/1.0\r\n\r\n".encode():
            client.sendall(bytes((byte,)))
        assert status(read_all(client)) == 200


def test_a_tunnel_that_nobody_uses_is_ended() -> None:
    with server(echo) as web, door([f"127.0.0.1:{web.port}"], limits=ProxyLimits(idle_seconds=0.1)) as way:
        client, head = way.tunnel(f"127.0.0.1:{web.port}")
        with client:
            assert (status(head), client.recv(1)) == (200, b"")


@contextlib.contextmanager
def deaf(address: str, port: int) -> Iterator[int]:
    """A server whose queue of connections is full, so that it answers no further one."""
    with socket.create_server((address, port), backlog=0) as full, contextlib.ExitStack() as held:
        port = full.getsockname()[1]
        for _ in range(8):
            caller = held.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex((address, port))
        yield port


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a queue of connections is not as short as asked for")
def test_a_server_that_never_answers_the_call_is_given_up() -> None:
    with deaf("127.0.0.1", 0) as port, door([f"127.0.0.1:{port}"], limits=ProxyLimits(connect_seconds=0.1)) as way:
        assert status(way.get(f"http://127.0.0.1:{port}/")) == 502
    assert way.reasons == ["listed"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a queue of connections is not as short as asked for")
def test_an_address_that_never_answers_leaves_time_for_the_next() -> None:
    more: dict[str, Any] = {"resolve": lambda host, port: ["127.0.0.2", "127.0.0.1"], "permits_address": anywhere}
    with (
        server() as web,
        deaf("127.0.0.2", web.port),
        door([f"x.example:{web.port}"], limits=ProxyLimits(connect_seconds=1), **more) as way,
    ):
        assert status(way.get(f"http://x.example:{web.port}/")) == 200


def test_more_connections_than_the_bound_are_turned_away_cleanly() -> None:
    with server() as web, door([f"127.0.0.1:{web.port}"], limits=ProxyLimits(connections=8, queue_seconds=0.05)) as way:
        url = f"http://127.0.0.1:{web.port}/"
        with contextlib.ExitStack() as held:
            for _ in range(8):
                held.enter_context(way.connect())
            for _ in range(1_000):
                assert status(way.get(url)) == 503
            assert threads() == 9
        assert wait_until(lambda: status(way.get(url)) == 200)
    assert way.reasons.count("busy") >= 1_000


def test_who_comes_when_all_places_are_taken_waits_for_one() -> None:
    limits = ProxyLimits(connections=1, queue_seconds=PATIENCE)
    with server() as web, door([f"127.0.0.1:{web.port}"], limits=limits) as way:
        answers: list[int] = []

        def ask() -> None:
            for _ in range(10):
                answers.append(status(way.get(f"http://127.0.0.1:{web.port}/")))

        clients = [threading.Thread(target=ask) for _ in range(8)]
        for client in clients:
            client.start()
        for client in clients:
            client.join(PATIENCE)
    assert answers == [200] * 80


def threads() -> int:
    return sum(thread.name == "metier-proxy" for thread in threading.enumerate())


def test_closing_ends_what_is_under_way() -> None:
    with server(echo) as web, contextlib.ExitStack() as held:
        with door([f"127.0.0.1:{web.port}"]) as way:
            client, _ = way.tunnel(f"127.0.0.1:{web.port}")
            held.enter_context(client)
            client.sendall(b"x")
            assert client.recv(1) == b"x"
            slow = held.enter_context(way.connect())
            slow.sendall(b"GET ")
            assert wait_until(lambda: threads() == 3)
        assert threads() == 0
        assert client.recv(1) == b""
        with contextlib.suppress(ConnectionResetError):
            assert slow.recv(1) == b""
        with pytest.raises(OSError):
            way.connect()


def test_closing_twice_and_without_a_start_is_no_error() -> None:
    way = Door([])
    way.proxy.close()
    way.proxy.close()
    with pytest.raises(OSError):
        way.connect()


def test_a_name_that_is_found_after_the_end_is_not_connected_to() -> None:
    asked, closing = threading.Event(), threading.Event()

    def slowly(host: str, port: int) -> list[str]:
        asked.set()
        assert closing.wait(PATIENCE)
        return ["127.0.0.1"]

    with server() as web:
        way = Door([f"web.example:{web.port}"], resolve=slowly, permits_address=anywhere)
        way.proxy.start()
        with way.connect() as client:
            client.sendall(f"CONNECT web.example:{web.port} HTTP/1.1\r\n\r\n".encode())
            assert asked.wait(PATIENCE)
            closer = threading.Thread(target=way.proxy.close)
            closer.start()
            assert wait_until(lambda: threads() == 1)
            closing.set()
            closer.join(PATIENCE)
        assert (threads(), web.connections) == (0, 0)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open descriptors cannot be counted here")
def test_nothing_stays_open() -> None:
    def use() -> None:
        with server() as web, door([f"127.0.0.1:{web.port}"]) as way:
            assert status(way.get(f"http://127.0.0.1:{web.port}/")) == 200
            assert status(way.get("http://evil.example/")) == 403
            client, _ = way.tunnel(f"127.0.0.1:{web.port}")
            client.close()

    use()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        use()
    assert (len(os.listdir("/proc/self/fd")), threads()) == (before, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are passed between processes in another way")
def test_a_socket_from_a_network_without_anything_is_enough(tmp_path: Path) -> None:
    import shutil
    import subprocess

    unshare = ["unshare", "--user", "--map-root-user", "--net"]
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("there are no network namespaces here")
    script = """
import fcntl, socket, struct, sys
out = socket.socket(fileno=int(sys.argv[1]))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sh22s", b"lo", 1, bytes(22)))
listener = socket.create_server(("127.0.0.1", 0))
socket.send_fds(out, [b"x"], [listener.fileno()])
for host in sys.argv[2:]:
    with socket.create_connection(listener.getsockname(), 20) as client:
        client.sendall(f"GET http://{host}/ HTTP/1.0\\r\\n\\r\\n".encode())
        print(b"".join(iter(lambda: client.recv(9999), b"")).split()[1].decode())
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[2].split(":")[1])), 20)
except OSError:
    print("alone")
"""
    ours, theirs = socket.socketpair()
    with server() as web, ours, theirs:
        number = str(theirs.fileno())
        job = subprocess.Popen(
            [*unshare, sys.executable, "-c", script, number, f"127.0.0.1:{web.port}", "evil.example"],
            pass_fds=[theirs.fileno()],
            stdout=subprocess.PIPE,
            text=True,
        )
        ours.settimeout(PATIENCE)
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        with AllowListProxy(socket.socket(fileno=descriptors[0]), [f"127.0.0.1:{web.port}"]):
            told, _ = job.communicate(timeout=PATIENCE)
    assert told.split() == ["200", "403", "alone"]


def test_programs_are_led_to_the_proxy_by_their_environment() -> None:
    assert proxy_variables(4711) == {
        "http_proxy": "http://127.0.0.1:4711",
        "https_proxy": "http://127.0.0.1:4711",
        "all_proxy": "http://127.0.0.1:4711",
        "no_proxy": "",
        "HTTP_PROXY": "http://127.0.0.1:4711",
        "HTTPS_PROXY": "http://127.0.0.1:4711",
        "ALL_PROXY": "http://127.0.0.1:4711",
        "NO_PROXY": "",
    }


def test_a_client_that_knows_proxies_gets_through() -> None:
    import urllib.request

    def page(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\npage")

    with server(page) as web, door([f"127.0.0.1:{web.port}"]) as way:
        proxies = {"http": proxy_variables(way.port)["http_proxy"]}
        opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
        with opener.open(f"http://127.0.0.1:{web.port}/", timeout=PATIENCE) as answer:
            assert answer.read() == b"page"


HOSTS = ["web.example", "*.example.org", "example.net:8080", "10.0.0.1"]
WORDS = st.sampled_from(
    [
        b"GET ", b"CONNECT ", b"POST ", b"http://", b"web.example", b"WEB.example.", b"a.example.org", b"example.org",
        b"evil.com", b"127.0.0.1", b"10.0.0.1", b"[::1]", b"@", b":", b":80", b":443", b":8080", b"/", b"?", b"#",
        b"\\", b"%", b" HTTP/1.1", b" HTTP/1.0", b"\r\n", b"\r\n", b"\r\n\r\n", b"\n", b"\r", b"\0", b" ", b"\t",
        b"Host: ", b"Content-Length: ", b"Transfer-Encoding: chunked", b"Connection: ", b"0", b"5", b"*", b"\xff",
    ]
)  # fmt: skip
NAMES = st.sampled_from(["web.example", "a.example.org", "example.net:8080", "evil.com", "10.0.0.1", "127.0.0.1:80"])


def request(method: str, host: str, named: str) -> bytes:
    target = f"http://{host}/" if method != "CONNECT" else host if ":" in host else f"{host}:443"
    return f"{method} {target} HTTP/1.1\r\nHost: {named}\r\n".encode()


def spoilt(data: bytes, at: int, drop: int, more: bytes) -> bytes:
    at %= len(data)
    return data[:at] + more + data[at + drop :]


METHODS = st.sampled_from(["GET", "POST", "CONNECT"])
SAME = NAMES.flatmap(lambda name: st.builds(request, METHODS, st.just(name), st.just(name)))
RIGHT = st.builds(request, METHODS, NAMES, NAMES) | SAME
REQUESTS = (
    st.binary(max_size=200)
    | st.lists(WORDS, max_size=20).map(b"".join)
    | RIGHT
    | st.builds(spoilt, RIGHT, st.integers(0, 99), st.integers(0, 3), WORDS | st.binary(max_size=2))
)


@given(REQUESTS)
def test_any_bytes_are_a_request_or_refused(head: bytes) -> None:
    try:
        request = parse_request(head.removesuffix(b"\r\n\r\n"))
    except BadRequest as error:
        assert error.status in (400, 431)
        return
    assert canonical_host(f"[{request.host}]" if ":" in request.host else request.host) == request.host
    assert 0 < request.port < 65_536
    if request.is_tunnel:
        assert request.head == b""
    else:
        # What goes on is itself a request that can be read in one way only, and for the same host.
        first, *headers = request.head.removesuffix(b"\r\n\r\n").split(b"\r\n")
        assert len(first.split(b" ")) == 3
        named = [line.partition(b": ")[2] for line in headers if line.lower().startswith(b"host:")]
        assert len(named) == 1
        again = b"GET http://" + named[0] + b"/ HTTP/1.1\r\n" + b"\r\n".join(headers)
        assert parse_request(again).host == request.host


@given(
    st.binary(max_size=60)
    | st.lists(st.sampled_from([b"5", b"a", b"0", b"\r\n", b"\r", b"\n", b"x" * 5])).map(b"".join)
)
def test_any_body_is_the_same_in_whatever_pieces_it_comes(data: bytes) -> None:
    def cut(pieces: list[bytes]) -> tuple[bytes, bool] | None:
        body, out = Body(None), b""
        try:
            for piece in pieces:
                out += body.feed(piece)
        except BadRequest:
            return None
        return out, body.is_over

    whole = cut([data])
    assert cut([data[at : at + 1] for at in range(len(data))]) == whole
    if whole is not None:
        assert data.startswith(whole[0])
        assert not whole[1] or whole[0].endswith(b"0\r\n\r\n")


def test_no_bytes_lead_to_a_host_that_is_not_listed() -> None:
    listed = HostList(HOSTS)
    looked_up: list[tuple[str, int]] = []

    def resolve(host: str, port: int) -> list[str]:
        looked_up.append((host, port))
        return []

    with door([host for host in HOSTS if host != "10.0.0.1"], resolve=resolve) as way:

        @given(REQUESTS)
        def send(data: bytes) -> None:
            answer = way.ask(data + b"\r\n\r\n")
            assert answer == b"" or status(answer) in (400, 403, 431, 502)

        send()
        way.get("http://web.example/")
    assert ("web.example", 80) in looked_up
    assert all(listed.match(host, port, {80, 443}) == "listed" for host, port in looked_up)
    assert not any(decision.allowed for decision in way.decisions)
