"""Nodes that must ask: with `nodes.online: required`, nothing is loaded or run that the server does not confirm."""

from __future__ import annotations

import asyncio

import pytest
from tests.node_server import NodeServer

from metier.guard import Action, Actor, Guard, MemoryLog
from metier.guard.decision import Subject
from metier.guard.governance import Governance
from metier.guard.node.exchange import NodeExchange
from metier.guard.policy.files import Policies

PDF = Subject(name="pdf", layer="personal", source="personal")


@pytest.fixture
def guard(server: NodeServer, exchange: NodeExchange) -> Guard:
    """The guard of a node that must ask its server."""
    server.change(policies=[{"name": "acme", "text": "nodes: {online: required}"}])
    exchange.renew()
    return Guard(audit=MemoryLog(), governance=Governance(Policies.discover(), store=None))


def test_each_load_asks_the_server_and_calls_of_tools_do_not(server: NodeServer, guard: Guard) -> None:
    server.received.clear()
    assert guard.decide(Action(point="load", skill=PDF)).is_allowed
    assert guard.decide(Action(point="load", skill=PDF)).is_allowed
    assert guard.decide(Action(point="call", tool="Read", arguments={"file_path": "a"})).is_allowed
    assert [path for _, path, _ in server.received] == ["/api/v1/nodes/me/lease"] * 2


def test_what_the_server_decided_a_moment_ago_counts_for_the_load_that_asks(server: NodeServer, guard: Guard) -> None:
    assert guard.decide(Action(point="load", skill=PDF)).is_allowed
    server.decide(blocked=[["name", "pdf", "ada"]])
    assert guard.decide(Action(point="load", skill=PDF)).code == "skill-quarantined"


@pytest.mark.parametrize("point", ["load", "run"])
def test_nothing_is_loaded_or_run_without_an_answer(server: NodeServer, guard: Guard, point: str) -> None:
    server.close()
    decision = guard.decide(Action(point=point, skill=PDF))  # type: ignore[arg-type]
    assert decision.code == "node-offline"
    assert decision.origin is not None
    assert decision.origin.key == "nodes.online"
    assert guard.decide(Action(point="read", skill=PDF)).is_allowed


def test_a_server_that_says_nothing_is_waited_for_no_longer_than_two_seconds(
    server: NodeServer, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.guard.node.exchange._CONFIRM_SECONDS", 0.2)
    server.is_silent = True
    assert guard.decide(Action(point="load", skill=PDF)).code == "node-offline"


def test_the_event_loop_goes_on_while_the_server_is_asked(
    server: NodeServer, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.guard.node.exchange._CONFIRM_SECONDS", 0.3)
    server.is_silent = True

    async def load() -> None:
        audited = await guard.enter_async(Action(point="load", skill=PDF), Actor(user="ada"))
        assert audited.decision.code == "node-offline"
        audited.close()

    async def both() -> int:
        loading = asyncio.create_task(load())
        ticks = 0
        while not loading.done():
            await asyncio.sleep(0.01)
            ticks += 1
        await loading
        return ticks

    assert asyncio.run(both()) > 3
