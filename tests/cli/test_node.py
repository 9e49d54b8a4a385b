"""`metier login`, `metier logout` and `metier node`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.node_server import TOKEN, NodeServer

from metier.library.places import is_node, node_folder, node_skills_folder


class Output(NamedTuple):
    """The output of a command."""

    out: str
    err: str


Node = Callable[..., Output]


@pytest.fixture
def server(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeServer]:
    """A server that knows one node, and the token of a person in the environment."""
    server = NodeServer(tmp_path)
    monkeypatch.setenv("METIER_API_TOKEN", "mtr_person")
    yield server
    if not server.is_stopping:
        server.close()


@pytest.fixture
def node(metier: Callable[..., tuple[int, str, str]]) -> Node:
    """Calls the command, which ends with the exit code that is expected."""

    def call(*words: str, code: int = 0) -> Output:
        found, out, err = metier(*words)
        assert found == code, err
        return Output(out, err)

    return call


def test_login_makes_this_machine_a_node_and_brings_what_is_deployed(server: NodeServer, node: Node) -> None:
    server.deploy("greet", "Say hello.")
    done = node("login", server.url, "--name", "laptop", "--json")
    assert json.loads(done.out) == {"server": server.url, "node": "n-1", "name": "laptop", "tenant": ""}
    assert server.received[0][:2] == ("POST", "/api/v1/nodes")
    assert server.received[0][2]["name"] == "laptop"
    assert (Path(node_skills_folder()) / "greet" / "SKILL.md").exists()
    for name in ("token", "binding.json", "state.json", "lease.json"):
        assert (Path(node_folder()) / name).stat().st_mode & 0o077 == 0
    assert (Path(node_folder()) / "token").read_text() == TOKEN


def test_a_machine_is_the_node_of_one_server(server: NodeServer, node: Node) -> None:
    node("login", server.url)
    assert "already" in node("login", server.url, code=2).err


def test_login_without_a_token_and_without_a_person_is_refused(
    server: NodeServer, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("METIER_API_TOKEN")
    assert "not-permitted" in node("login", server.url, code=1).err
    assert not is_node()


def test_login_at_a_server_that_is_gone_changes_nothing(server: NodeServer, node: Node) -> None:
    server.close()
    assert "server-unreachable" in node("login", server.url, code=1).err
    assert not is_node()


def test_logout_revokes_the_node_and_leaves_nothing_of_it(server: NodeServer, node: Node) -> None:
    server.deploy("greet")
    node("login", server.url)
    assert json.loads(node("logout", "--json").out) == {"server": server.url, "revoked": True}
    assert ("DELETE", "/api/v1/nodes/n-1", b"") in server.received
    assert not is_node()
    assert not os.path.exists(node_skills_folder())
    assert "no node" in node("logout", code=1).err


def test_status_says_how_long_the_node_may_be_alone(
    server: NodeServer, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.change(policies=[{"name": "acme", "text": "nodes: {lease: 10m, offline: read-only}"}])
    node("login", server.url)
    found = json.loads(node("node", "status", "--json").out)
    assert 590 < found["seconds_left"] <= 600
    assert (found["server"], found["fault"], found["offline"]) == (server.url, "", "read-only")
    os.unlink(Path(node_folder()) / "state.json")
    found = json.loads(node("node", "status", "--json", code=1).out)
    assert (found["fault"], found["seconds_left"]) == ("node-state-invalid", 0)


def test_sync_exchanges_everything_once(server: NodeServer, node: Node) -> None:
    node("login", server.url)
    server.deploy("greet")
    assert json.loads(node("node", "sync", "--json").out) == {"server": server.url, "number": 2, "problems": []}
    assert (Path(node_skills_folder()) / "greet" / "SKILL.md").exists()
    server.close()
    assert "server-unreachable" in node("node", "sync", code=1).err


def test_whoever_decides_on_a_node_decides_at_its_server(
    server: NodeServer, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node("login", server.url)
    server.received.clear()
    node("quarantine", "add", "pdf", "--reason", "It sends files away")
    node("approve", "grant", "r-1", "--expires", "30d")
    node("approve", "deny", "r-2", "--reason", "No")
    node("propose", "approve", "p-1", "--reason", "Right")
    sent = [(path, body) for method, path, body in server.received if method == "POST" and "nodes/me" not in path]
    assert sent == [
        ("/api/v1/quarantine", {"kind": "name", "value": "pdf", "reason": "It sends files away"}),
        ("/api/v1/requests/r-1/grant", {"reason": "", "only": None, "tools": [], "expires": "30d"}),
        ("/api/v1/requests/r-2/deny", {"reason": "No"}),
        ("/api/v1/proposals/p-1/approve", {"comment": "Right", "apply": True}),
    ]
    monkeypatch.delenv("METIER_API_TOKEN")
    assert "not-permitted" in node("quarantine", "add", "pdf", "--reason", "x", code=1).err
    assert "not-permitted" in node("approve", "revoke", "a-1", "--reason", "x", code=1).err
