"""A job reaches nobody, the hosts on its list, or what this machine reaches: as it was said."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from metier.errors import IsolationMissing
from metier.run import Outcome

Run = Callable[..., Outcome]
IS_ROOT = not hasattr(os, "geteuid") or os.geteuid() == 0
TIERS_WITH_A_VIEW = ["namespaces"] if IS_ROOT else ["namespaces", "bubblewrap"]
has_view = pytest.mark.parametrize("tier", TIERS_WITH_A_VIEW, indirect=True)

FETCH = """
import sys, urllib.error, urllib.request
for url in sys.argv[1:]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            print(answer.status, answer.read().decode().strip())
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode().strip())
    except OSError as error:
        print("failed")
"""
CONNECT = """
import socket, sys
for port in sys.argv[1:]:
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"), (socket.AF_INET, "8.8.8.8")):
        try:
            with socket.socket(family) as it:
                it.settimeout(5)
                it.connect((host, int(port)))
                print("reached", host)
        except OSError:
            pass
"""


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        """Nobody needs to know."""


class _Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.asked: list[str] = []


@pytest.fixture
def server() -> Iterator[_Server]:
    """A server on this machine."""
    with _Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.mark.covers("S-02")
@pytest.mark.parametrize("network", ["none", "restricted"])
def test_a_job_without_network_reaches_nobody(python: Run, server: _Server, network: str) -> None:
    # A list without hosts is nobody.
    outcome = python(CONNECT, str(server.server_port), network=network)
    assert (outcome.stdout, outcome.exit_code) == ("", 0)
    fetched = python(FETCH, f"http://127.0.0.1:{server.server_port}/", network=network)
    assert (fetched.stdout, fetched.exit_code) == ("failed\n", 0)
    assert server.asked == []


@has_view
@pytest.mark.parametrize("network", ["none", "restricted"])
def test_a_job_without_network_has_no_interface_but_one_that_is_down(sh: Run, network: str) -> None:
    outcome = sh("tail -n +3 /proc/net/dev | cut -d: -f1; cat /proc/net/route | tail -n +2", network=network)
    assert outcome.stdout.split() == ["lo"]


def test_a_job_without_network_cannot_open_other_sockets_either(python: Run) -> None:
    script = """
import socket
datagrams, raw = (socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_PACKET, socket.SOCK_RAW)
for family, kind in (datagrams, raw, (40, 1), (38, 5), (16, 3)):
    try:
        socket.socket(family, kind).bind(("", 0) if family == socket.AF_INET else (0, 0))
        print("opened", family)
    except (OSError, TypeError) as error:
        pass
left, right = socket.socketpair()
left.send(b"pairs work")
print(right.recv(100).decode())
"""
    assert python(script).stdout == "pairs work\n"


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are no such sockets")
def test_a_job_does_not_reach_sockets_of_this_machine(python: Run) -> None:
    name = f"metier-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen()
        script = f"import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + {name!r}); print('reached')"
        assert python(script).stdout == ""


def test_a_job_with_the_hosts_network_reaches_what_it_reaches(python: Run, server: _Server) -> None:
    outcome = python(FETCH, f"http://127.0.0.1:{server.server_port}/x", network="host")
    assert outcome.stdout == "200 hello\n"
    assert server.asked == ["/x"]


@has_view
@pytest.mark.covers("S-02")
def test_a_restricted_job_reaches_exactly_the_hosts_on_its_list(python: Run, server: _Server) -> None:
    with _Server() as other:
        allowed, forbidden = server.server_port, other.server_port
        outcome = python(
            FETCH,
            f"http://127.0.0.1:{allowed}/yes",
            f"http://127.0.0.1:{forbidden}/no",
            "http://example.com/no",
            f"http://localhost:{allowed}/no",
            network="restricted",
            hosts=(f"127.0.0.1:{allowed}",),
        )
    lines = outcome.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["200", "403", "403", "403"]
    assert "not on the list" in lines[2]
    assert (server.asked, other.asked) == (["/yes"], [])


@has_view
def test_a_restricted_job_cannot_go_past_the_proxy(python: Run, server: _Server) -> None:
    port = str(server.server_port)
    outcome = python(CONNECT, port, "53", network="restricted", hosts=(f"127.0.0.1:{port}",))
    assert (outcome.stdout, outcome.exit_code) == ("", 0)


@has_view
def test_curl_finds_its_way_through_the_proxy(sh: Run, server: _Server) -> None:
    url = f"http://127.0.0.1:{server.server_port}/curl"
    outcome = sh('command -v curl >/dev/null || exit 99; curl -s "$1"; curl -s -o /dev/null -w " %{http_code}" http://example.com/',
                 url, network="restricted", hosts=(f"127.0.0.1:{server.server_port}",))  # fmt: skip
    if outcome.exit_code == 99:
        pytest.skip("curl is not installed")
    assert outcome.stdout == "hello 403"


@has_view
def test_restricted_jobs_at_once_each_have_their_own_way_out(python: Run, server: _Server) -> None:
    codes: dict[bool, list[str]] = {True: [], False: []}

    def work(is_allowed: bool) -> None:
        hosts = (f"127.0.0.1:{server.server_port}",) if is_allowed else ("example.org",)
        outcome = python(FETCH, f"http://127.0.0.1:{server.server_port}/", network="restricted", hosts=hosts)
        codes[is_allowed].append(outcome.stdout.split()[0])

    threads = [threading.Thread(target=work, args=(at % 2 == 0,)) for at in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == {True: ["200"] * 3, False: ["403"] * 3}


def test_a_sandbox_that_cannot_tell_hosts_apart_says_so(run: Run, tier: str) -> None:
    if tier != "landlock":
        assert run("true", network="restricted", hosts=("example.com",)).is_success
        return
    with pytest.raises(IsolationMissing) as caught:
        run("true", network="restricted", hosts=("example.com",))
    assert caught.value.context["missing"] == ["hosts"]


@has_view
@pytest.mark.parametrize("host", ["", "not a host", "http://example.com", "*", "a\0b", "[::1"])
def test_a_list_with_something_else_than_hosts_is_refused(run: Run, host: str) -> None:
    from metier.errors import InvalidArgument

    try:
        outcome = run("echo", "ran", network="restricted", hosts=(host,))
    except InvalidArgument:
        return
    assert (outcome.exit_code, outcome.stdout) == (127, "")
    assert outcome.stderr
