"""Receivers: at public addresses alone, at the address that was judged, never further, and never for long."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.serve.api.notices.conftest import Notices
from tests.serve.api.notices.receiver import Receiver, receiving

from metier.errors import InvalidArgument
from metier.serve.api.notices.transport import DeliveryFailed, check_url, post

INTERNAL = (
    "https://127.0.0.1/hook",
    "https://10.0.0.8/",
    "https://192.168.1.1/",
    "https://172.16.3.4:8443/",
    "https://169.254.169.254/latest/meta-data/",
    "https://168.63.129.16/",
    "https://100.100.100.200/",
    "https://0.0.0.0/",
    "https://[::1]/",
    "https://[fe80::1]/",
    "https://[fd00:ec2::254]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[64:ff9b::7f00:1]/",
    "http://localhost:8400/api/v1/me",
    "http://example.com/hook",
    "https://0x7f000001/",
    "https://2130706433/",
    "https://127.1/",
    "https://user:secret@example.com/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com/",
    "https://",
    "https://exa mple.com/",
    "https://example.com/\r\nX-Other: 1",
)


@pytest.mark.parametrize("url", INTERNAL)
def test_nothing_is_sent_to_an_internal_address(url: str) -> None:
    if "localhost" not in url:  # a name is judged when it is looked up
        with pytest.raises(InvalidArgument):
            check_url(url, allow_private=False)
    with pytest.raises(DeliveryFailed):
        post(url, b"{}", {}, allow_private=False, seconds=5)


@pytest.mark.parametrize(
    "url",
    ["https://169.254.169.254/", "https://[fd00:ec2::254]/", "https://[::ffff:169.254.169.254]/", "https://0.0.0.0/"],
)
def test_an_address_of_a_provider_is_refused_even_where_private_ones_are_allowed(url: str) -> None:
    with pytest.raises(InvalidArgument, match="no public address"):
        check_url(url, allow_private=True)


def test_an_address_of_this_machine_is_refused_by_the_api(notices: Notices) -> None:
    body = {"url": "https://169.254.169.254/latest", "events": ["quarantine"]}
    answer = notices.api.as_("admin").post("/api/v1/webhooks", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-argument")


def test_a_name_that_leads_inside_is_refused_when_it_is_looked_up(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    port = int(receiver.url.split(":")[2].partition("/")[0])

    def look_up(host: str, *_: object, **__: object) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr("metier.serve.api.notices.transport.socket.getaddrinfo", look_up)
    check_url("https://hooks.example.com/", allow_private=False)
    with pytest.raises(DeliveryFailed, match="no public address"):
        post("https://hooks.example.com/", b"{}", {}, allow_private=False)
    # One look: what is judged is what is connected to.
    assert asked == ["hooks.example.com"]
    assert receiver.received == []


def test_a_redirect_is_an_answer_like_any_other_that_is_no_success(notices: Notices) -> None:
    with receiving() as inside:
        webhook = notices.add("quarantine")
        notices.receiver.status, notices.receiver.location = 307, inside.url
        notices.quarantine()
        notices.worker.run_once()
        assert inside.received == []
    assert notices.log(webhook)[0]["response"] == "307"


@contextmanager
def _dripping(piece: bytes) -> Iterator[str]:
    """A receiver that sends a little, again and again, and never ends."""
    stopping = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        client, _ = listener.accept()
        with client:
            while not stopping.wait(0.02):
                try:
                    client.sendall(piece)
                except OSError:
                    return

    thread = threading.Thread(target=drip)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    stopping.set()
    thread.join()
    listener.close()


@pytest.mark.parametrize("piece", [b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"H", b"HTTP/1.1 200 OK\r\nX: 1\r\n"])
def test_a_receiver_that_never_ends_its_answer_is_left(piece: bytes) -> None:
    with _dripping(piece) as url, pytest.raises(DeliveryFailed):
        post(url, b"{}", {}, allow_private=True, seconds=0.3)


def test_a_receiver_that_reads_nothing_is_left() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(DeliveryFailed, match="took too long"):
            post(url, b"a" * 20_000_000, {}, allow_private=True, seconds=0.3)


def test_an_answer_of_any_length_is_not_read() -> None:
    with _dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n") as url:
        assert post(url, b"{}", {}, allow_private=True) == 200
