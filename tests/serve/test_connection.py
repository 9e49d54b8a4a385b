"""What a line knows of its clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from metier.serve.mcp.connection import ClientConnection, Peer

URI = "skill://forms/SKILL.md"


def test_a_client_may_leave_while_others_are_looked_at() -> None:
    class Leaving(set[str]):
        def __iter__(self) -> Iterator[str]:
            line.peers.pop("second", None)  # as a worker thread does at this very moment
            return super().__iter__()

    none = cast("Any", None)
    line = ClientConnection(conversations=none, bus=none, listen=none)
    line.peers["first"] = Peer(session=none, subscriptions=Leaving([URI]))
    line.peers["second"] = Peer(session=none)
    line.require_few([URI])
    assert list(line.peers) == ["first"]
