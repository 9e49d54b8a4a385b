"""A server on loopback, and this machine as its node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.node_server import TOKEN, NodeServer

from metier.guard.node.binding import write_binding
from metier.guard.node.exchange import NodeExchange
from metier.hub.node.sync import finish


@pytest.fixture
def server(tmp_path: Path, own_home: Path) -> Iterator[NodeServer]:
    """A server that knows one node."""
    server = NodeServer(tmp_path)
    yield server
    if not server.is_stopping:
        server.close()
    finish()


@pytest.fixture
def exchange(server: NodeServer) -> NodeExchange:
    """This machine as the server's node, which has exchanged nothing yet."""
    write_binding(server.binding(), TOKEN)
    return NodeExchange(server.binding(), TOKEN)
