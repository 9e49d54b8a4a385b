"""The stream by which a node hears of changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serve.api.conftest import Api
from tests.serve.api.node_client import NODES, NodeClient, listening

from metier.store import Store

_SECONDS = 20.0


class Stream:
    """The events of a node, read line by line."""

    def __init__(self, node: NodeClient, answer: httpx.Response) -> None:
        self._node, self._lines = node, answer.iter_lines()

    def lease(self) -> dict[str, Any]:
        """The next lease."""
        for line in self._lines:
            if line.startswith("data: "):
                return self._node.open(json.loads(line.removeprefix("data: ")))
        raise EOFError


@pytest.fixture
def node(api: Api, tmp_path: Path) -> Iterator[NodeClient]:
    """A laptop."""
    with Store.open(f"sqlite:///{tmp_path}/laptop/metier.db") as log:
        yield NodeClient(api, log)


@pytest.fixture
def stream(api: Api, node: NodeClient) -> Iterator[Stream]:
    """What it hears."""
    token = {"Authorization": f"Bearer {node.enrolled['token']}"}
    with (
        listening(api) as url,
        httpx.Client(base_url=url, headers=token, timeout=_SECONDS) as client,
        client.stream("GET", f"{NODES}/me/events") as answer,
    ):
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        yield Stream(node, answer)


def test_a_node_hears_its_lease_at_once_and_a_new_one_on_every_change(api: Api, stream: Stream) -> None:
    first = stream.lease()
    api.scope.blocks.add("name", "coins", reason="It mines.", by="admin")
    found = stream.lease()
    while found["state"] == first["state"]:
        found = stream.lease()
    assert found["number"] > first["number"]


def test_the_stream_of_a_revoked_node_ends(api: Api, node: NodeClient, stream: Stream) -> None:
    stream.lease()
    assert api.as_("admin").delete(f"{NODES}/{node.id}").status_code == 204
    with pytest.raises(EOFError):
        while stream.lease():
            pass


def test_the_stream_ends_when_the_server_stops(api: Api, stream: Stream) -> None:
    stream.lease()
    api.context.stop()
    with pytest.raises(EOFError):
        while stream.lease():
            pass
