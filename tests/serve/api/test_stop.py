"""A server that is told to stop: what is under way comes to its end, and what is not whole leaves nothing."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.serve.machine import Machine, Server, until

from metier.hub.publish.pack import pack
from metier.skill.package import digest_of_files
from metier.store import Store

pytestmark = pytest.mark.slow
FILES: Any = {"SKILL.md": ("file", b"---\nname: pdf\ndescription: Reads PDF files.\n---\nRead it.\n" + b"x" * 5_000)}
ARCHIVE = pack(FILES, "tar.gz")
PATH = f"/api/v1/contents/{digest_of_files(FILES)}"


@pytest.fixture
def host(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "host")


@pytest.fixture
def server(host: Machine) -> Iterator[Server]:
    with host.server() as server:
        yield server


@pytest.fixture
def stopping() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as threads:
        yield threads


@contextlib.contextmanager
def connected(server: Server) -> Iterator[http.client.HTTPConnection]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", int(server.port), timeout=30)) as connection:
        yield connection


@contextlib.contextmanager
def half_upload(server: Server) -> Iterator[http.client.HTTPConnection]:
    """An upload of which the server has the half."""
    with connected(server) as connection:
        connection.putrequest("PUT", PATH)
        connection.putheader("Authorization", f"Bearer {server.token}")
        connection.putheader("Content-Type", "application/gzip")
        connection.putheader("Content-Length", str(len(ARCHIVE)))
        connection.endheaders(ARCHIVE[: len(ARCHIVE) // 2])
        # The server has read it once it answers what came after it.
        with connected(server) as other:
            other.request("GET", "/healthz")
            assert other.getresponse().status == 200
        yield connection


def stop(server: Server, threads: ThreadPoolExecutor) -> Future[int]:
    """Tell it to stop, and wait until it takes no more connections."""
    port = int(server.port)
    code = threads.submit(server.stop)
    assert until(lambda: not is_open(port))
    return code


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def has_content(host: Machine) -> bool:
    with Store.open(f"sqlite:///{host.environ['METIER_DATA']}/metier.db") as store:
        return store.of().revisions.has(PATH.rpartition("/")[2])


def test_an_upload_that_has_begun_is_taken_whole(host: Machine, server: Server, stopping: ThreadPoolExecutor) -> None:
    with half_upload(server) as upload:
        code = stop(server, stopping)
        upload.send(ARCHIVE[len(ARCHIVE) // 2 :])
        assert upload.getresponse().status == 201
    assert code.result(30) == 0
    assert has_content(host)


def test_an_upload_that_never_ends_holds_no_server_up_and_leaves_nothing(
    host: Machine, server: Server, stopping: ThreadPoolExecutor
) -> None:
    with half_upload(server) as upload:
        code = stop(server, stopping)
        answer = upload.getresponse()
        assert (answer.status, json.load(answer)["code"]) == (503, "stopping")
    assert code.result(30) == 0
    assert not has_content(host)


def test_an_open_stream_ends_as_it_should(server: Server, stopping: ThreadPoolExecutor) -> None:
    header = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    with connected(server) as connection:
        connection.request("POST", "/api/v1/nodes", json.dumps({"name": "laptop", "platform": ""}), header)
        node = json.load(connection.getresponse())
    with connected(server) as connection:
        connection.request("GET", "/api/v1/nodes/me/events", headers={"Authorization": f"Bearer {node['token']}"})
        stream = connection.getresponse()
        assert stream.readline() == b"event: lease\n"
        code = stop(server, stopping)
        stream.read()  # raises IncompleteRead where the last chunk is missing
    assert code.result(30) == 0
