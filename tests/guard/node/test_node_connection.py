"""The connection of a node: nobody but its server is spoken to, and nothing that answers can hold it up or fill it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from metier.errors import InvalidArgument, ServerRefused, ServerUnreachable
from metier.guard.node.connection import ServerConnection, checked_url

Answering = Callable[[bytes], ServerConnection]


@pytest.fixture
def answering() -> Iterator[Answering]:
    """Gives a connection to somebody who answers each request with these bytes, and then says nothing."""
    servers: list[socket.socket] = []

    def serve(data: bytes) -> ServerConnection:
        listening = socket.create_server(("127.0.0.1", 0))
        servers.append(listening)

        def answer() -> None:
            try:
                peer, _ = listening.accept()
                servers.append(peer)
                peer.recv(65_536)
                peer.sendall(data)
            except OSError:
                pass

        threading.Thread(target=answer, daemon=True).start()
        return ServerConnection(f"http://127.0.0.1:{listening.getsockname()[1]}", "mtr_secret")

    yield serve
    for one in servers:
        one.close()


@pytest.mark.each(
    "url",
    [
        "http://skills.example.com",
        "ftp://localhost",
        "localhost:8400",
        "https://",
        "https://ada:secret@skills.example.com",
        "https://skills.example.com?x=1",
        "https://skills.example.com:port",
        "https://[::1",
    ],
)
def test_addresses_that_are_none_or_would_send_tokens_in_the_open_are_refused(url: str) -> None:
    with pytest.raises(InvalidArgument):
        checked_url(url)


def test_a_redirect_is_not_followed(answering: Answering) -> None:
    connection = answering(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")
    with pytest.raises(ServerUnreachable, match="answers with 302"):
        connection.request("GET", "/api/v1/nodes/me/state", seconds=5)


def test_a_problem_of_the_server_is_an_error_with_its_code(answering: Answering) -> None:
    body = b'{"code": "record-gap", "detail": "Record 3 comes next.", "expected": 3}'
    connection = answering(b"HTTP/1.1 409 Conflict\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    with pytest.raises(ServerRefused, match="Record 3 comes next") as raised:
        connection.request("POST", "/api/v1/nodes/me/records", {}, seconds=5)
    assert raised.value.code == "record-gap"
    assert raised.value.context["status"] == 409


@pytest.mark.each(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2_000,
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n",
        b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\nOops",
    ],
)
def test_whatever_is_no_answer_of_a_server_is_told_in_bounded_time(answering: Answering, answer: bytes) -> None:
    with pytest.raises(ServerUnreachable):
        answering(answer).request("GET", "/x", seconds=0.3, most=1_000)
