"""Clients are told when skills come, go or change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread
import mcp
import pytest
from mcp.client.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from tests.serve.clients import ask, talk

from metier import Library
from metier.dialect import Skills
from metier.guard import MemoryLog
from metier.serve.mcp import SkillServer
from metier.serve.mcp.change_notifications import ChangeNotifier
from metier.serve.mcp.connection import ClientConnection, Peer
from metier.serve.mcp.conversations import Conversations
from metier.testing import library

URI = "skill://quiet/SKILL.md"


def test_a_client_that_listens_is_told_of_an_edited_skill(
    serve: Callable[..., SkillServer], skills: Path, write_skill: Callable[..., Path]
) -> None:
    async def use(client: mcp.Client) -> Any:
        async with client.listen(
            tools_list_changed=True,
            prompts_list_changed=True,
            resources_list_changed=True,
            resource_subscriptions=[URI],
        ) as events:
            write_skill(skills / "quiet", description="Is loud.", body="Shout.")
            told = set()
            async for event in events:
                told.add(event)
                if len(told) == 3:
                    break
        listed = (await ask(client, "skills/get", uri=URI))["skill"]["frontmatter"]["description"]
        return told, listed

    told, description = talk(serve(), use)
    assert told == {PromptsListChanged(), ResourcesListChanged(), ResourceUpdated(uri=URI)}
    assert description == "Is loud."


def test_a_client_after_a_handshake_is_told_without_asking(
    serve: Callable[..., SkillServer], skills: Path, write_skill: Callable[..., Path]
) -> None:
    told: set[str] = set()

    async def use(client: mcp.Client) -> None:
        for uri in (URI, "skill://letters/SKILL.md"):
            await ask(client, "resources/subscribe", uri=uri)
        write_skill(skills / "quiet", description="Is loud.", body="Shout.")
        while len(told) < 3:
            await anyio.sleep(0.01)
        await ask(client, "resources/unsubscribe", uri=URI)

    async def note(message: Any) -> None:
        told.add(f"{message.method} {getattr(message.params, 'uri', '')}".strip())

    talk(serve(), use, "legacy", message_handler=note)
    assert told == {
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        f"notifications/resources/updated {URI}",
    }


@pytest.mark.parametrize("dialect", ["tool", "sandbox"])
def test_tools_that_list_the_skills_change_with_them(
    serve: Callable[..., SkillServer], skills: Path, write_skill: Callable[..., Path], dialect: str
) -> None:
    async def use(client: mcp.Client) -> str | None:
        async with client.listen(tools_list_changed=True) as events:
            write_skill(skills / "new-one", description="Is new.", body="Do.")
            async for event in events:
                assert event == ToolsListChanged()
                break
        return (await client.list_tools()).tools[0].description

    assert "new-one" in str(talk(serve(dialect=dialect), use))


def test_the_first_skill_brings_the_tools(
    serve: Callable[..., SkillServer], tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    (tmp_path / "empty").mkdir()

    async def use(client: mcp.Client) -> list[str]:
        assert (await client.list_tools()).tools == []
        assert client.instructions is None
        async with client.listen(tools_list_changed=True) as events:
            write_skill(tmp_path / "empty" / "first", description="Is first.", body="Do.")
            async for _ in events:
                break
        return [tool.name for tool in (await client.list_tools()).tools]

    assert "skills_load" in talk(serve(library=Library.from_folder(tmp_path / "empty", cache=False)), use)


def test_a_block_is_told_with_the_next_request(serve: Callable[..., SkillServer]) -> None:
    server = serve()

    async def use(client: mcp.Client) -> Any:
        async with client.listen(resources_list_changed=True) as events:
            server.guard.block("quiet")
            await client.list_tools()
            async for event in events:
                return event
        return None

    assert talk(server, use) == ResourcesListChanged()


class Reader:
    """A client after a handshake, which reads when it wants to."""

    def __init__(self) -> None:
        self.reads = anyio.Event()
        self.is_waited_for = anyio.Event()
        self.told = 0

    async def send_tool_list_changed(self) -> None:
        self.is_waited_for.set()
        await self.reads.wait()

    async def send_prompt_list_changed(self) -> None:
        pass

    async def send_resource_list_changed(self) -> None:
        self.told += 1


def test_what_happens_while_a_client_does_not_read_is_told_as_one() -> None:
    conversations = Conversations(Skills(library("greet: Says hello."), audit=MemoryLog()))
    changes = ChangeNotifier(conversations)

    async def main() -> tuple[int, int]:
        bus = InMemorySubscriptionBus()
        line = ClientConnection(conversations=conversations, bus=bus, listen=ListenHandler(bus))
        slow, quick = Reader(), Reader()
        quick.reads.set()
        line.peers.update({name: Peer(session=cast("Any", one)) for name, one in (("slow", slow), ("quick", quick))})
        with anyio.fail_after(20):
            async with changes.told_to(line):
                for count in range(1, 6):
                    await anyio.to_thread.run_sync(changes.look)
                    await slow.is_waited_for.wait()
                    while quick.told < count:
                        await anyio.sleep(0.001)
                slow.reads.set()
                while slow.told < 2:
                    await anyio.sleep(0.001)
        return slow.told, quick.told

    assert anyio.run(main) == (2, 5)
    conversations.close()
