"""`metier mcp` as its own process, and the command line of the MCP Inspector that drives it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.npm_packages import npm_command

TOKEN = "a-token-for-tests"
SECONDS = 120


class Server(NamedTuple):
    """A server on HTTP, and what went over the wire to its clients."""

    url: str
    sent: bytearray


class Inspected(NamedTuple):
    """What the Inspector ended with, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


@pytest.fixture(scope="session")
def skills(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two skills, one of which has a script that takes a moment."""
    root = tmp_path_factory.mktemp("inspector") / "skills"
    for name, more in {"totals": "", "review": "allowed-tools: Read\n"}.items():
        (root / name / "references").mkdir(parents=True)
        (root / name / "scripts").mkdir()
        text = f"---\nname: {name}\ndescription: Does {name}.\n{more}---\nThe instructions of {name}.\n"
        (root / name / "SKILL.md").write_text(text)
        (root / name / "references" / "notes.md").write_text(f"Notes on {name}.\n")
        (root / name / "scripts" / "count.sh").write_text("for n in 1 2 3; do echo line $n; sleep 0.2; done\n")
    return root


@pytest.fixture(scope="session")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which nothing of the user's is read or written."""
    home = tmp_path_factory.mktemp("inspector-home")
    places = {"METIER_CACHE": "cache", "METIER_CONFIG": "config", "METIER_AUDIT": "audit.jsonl"}
    more = {name: str(home / place) for name, place in places.items()}
    return {**os.environ, "HOME": str(home), "METIER_VECTORS": "off", "MCP_AUTO_OPEN_ENABLED": "false", **more}


@pytest.fixture(scope="session")
def arguments(skills: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What `metier` is told to serve."""
    return ["--skills", str(skills), "mcp", "--workspace", str(tmp_path_factory.mktemp("workspace"))]


@pytest.fixture(scope="session")
def command(arguments: list[str], programs: Path) -> list[str]:
    """How a client starts the server, which need not import everything again each time."""
    return [str(programs / "metier"), *arguments]


@pytest.fixture(scope="session")
def server(command: list[str], surroundings: dict[str, str]) -> Iterator[Server]:
    """The server on HTTP with a token, behind something that listens in."""
    env = {**surroundings, "METIER_TOKEN": TOKEN}
    process = subprocess.Popen([*command, "--http", "127.0.0.1:0"], env=env, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        said = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/mcp", said)
        assert found is not None, said + process.stderr.read()
        with listening_in(int(found[1])) as (port, sent):
            yield Server(f"http://127.0.0.1:{port}/mcp", sent)
    finally:
        process.terminate()
        assert process.wait(timeout=30) == 0
        process.stderr.close()


@contextlib.contextmanager
def listening_in(port: int) -> Iterator[tuple[int, bytearray]]:
    """A port that passes everything on to another, and what came back from there."""
    sent = bytearray()
    ends: dict[socket.socket, socket.socket] = {}
    with socket.create_server(("127.0.0.1", 0)) as listener, selectors.DefaultSelector() as ready:
        wake, waker = socket.socketpair()

        def pass_on() -> None:
            while True:
                for key, _ in ready.select():
                    one = key.fileobj
                    assert isinstance(one, socket.socket)
                    if one is wake:
                        return
                    if one is listener:
                        client, target = listener.accept()[0], socket.create_connection(("127.0.0.1", port))
                        ends.update({client: target, target: client})
                        for end in (client, target):
                            ready.register(end, selectors.EVENT_READ, data=end is target)
                        continue
                    data = b""
                    with contextlib.suppress(OSError):
                        data = one.recv(65_536)
                        ends[one].sendall(data)
                    if key.data:
                        sent.extend(data)
                    if not data:
                        for end in (one, ends.pop(one)):
                            ends.pop(end, None)
                            ready.unregister(end)
                            end.close()

        ready.register(listener, selectors.EVENT_READ)
        ready.register(wake, selectors.EVENT_READ)
        thread = threading.Thread(target=pass_on)
        thread.start()
        try:
            yield listener.getsockname()[1], sent
        finally:
            waker.send(b"x")
            thread.join(timeout=10)
            for end in (*ends, wake, waker):
                end.close()


@pytest.fixture
def inspect(surroundings: dict[str, str], command: list[str]) -> Callable[..., Inspected]:
    """Runs the Inspector's command line, on the server over stdio or on the one at a URL."""
    program = npm_command("mcp-inspector")

    def run(*arguments: str, at: Server | None = None, era: str = "modern") -> Inspected:
        target = command if at is None else []
        where = [] if at is None else ["--server-url", at.url, "--header", f"Authorization: Bearer {TOKEN}"]
        done = subprocess.run(
            [*program, "--cli", "--protocol-era", era, *where, *arguments, *(["--", *target] if target else [])],
            env=surroundings,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        return Inspected(done.returncode, done.stdout, done.stderr)

    return run
