"""Over HTTP: who is let in, and which conversation a request belongs to."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import mcp
import pytest
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPError
from tests.serve.clients import MODES, YES, answering, ask, connected, talk, text_of

from metier import Library
from metier.errors import InvalidArgument, SourceUnavailable
from metier.guard import MemoryLog, Policy
from metier.serve.mcp import SkillServer
from metier.serve.mcp.connection import MAX_SUBSCRIPTIONS
from metier.serve.mcp.http import MAX_BODY
from metier.serve.mcp.resources import Resources

DISCOVER = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "server/discover",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "MCP-Method": "server/discover",
}


def post(
    url: str, body: Any = DISCOVER, *, path: str = "/mcp", method: str = "POST", **headers: str
) -> tuple[int, str]:
    """The status and text of a plain request."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)
    try:
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(
            method, path, sent, HEADERS | {name.replace("_", "-"): given for name, given in headers.items()}
        )
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


class TestWhoIsLetIn:
    def test_requests_for_this_machine_are_answered(
        self, serve: Callable[..., SkillServer], http: Callable[..., str]
    ) -> None:
        url = http(serve())
        status, text = post(url)
        assert status == 200
        assert "io.modelcontextprotocol/skills" in text
        assert post(url, Host="localhost:1")[0] == 200
        assert post(url, Origin=f"http://localhost:{urlsplit(url).port}")[0] == 200

    def test_requests_for_another_host_or_from_another_page_are_refused(
        self, serve: Callable[..., SkillServer], http: Callable[..., str]
    ) -> None:
        url = http(serve())
        assert post(url, Host="evil.example")[0] == 421
        assert post(url, Host="127.0.0.1.evil.example")[0] == 421
        assert post(url, Origin="http://evil.example")[0] == 403
        assert post(url, Origin="null")[0] == 403

    def test_a_host_that_is_named_is_allowed(self, serve: Callable[..., SkillServer], http: Callable[..., str]) -> None:
        url = http(serve(), allowed_hosts=["skills.example"])
        assert post(url, Host="skills.example")[0] == 200
        assert post(url, Host="other.example")[0] == 421

    def test_with_a_token_nothing_else_is_let_in(
        self, serve: Callable[..., SkillServer], http: Callable[..., str]
    ) -> None:
        url = http(serve(), token="a-long-secret")
        assert post(url, Authorization="Bearer a-long-secret")[0] == 200
        assert post(url, Authorization="bearer a-long-secret")[0] == 200
        for wrong in ({}, {"Authorization": "Bearer"}, {"Authorization": "Bearer a-long-secre"}):
            assert post(url, **wrong)[0] == 401
        assert post(url, Authorization="Basic a-long-secret")[0] == 401
        assert post(url, path="/other")[0] == 401

    def test_a_body_that_is_no_request_is_refused(
        self, serve: Callable[..., SkillServer], http: Callable[..., str]
    ) -> None:
        url = http(serve())
        for body in (b"", b"{", b"[]", b'"x"', b"[" * 100_000, b'{"id": 1}', b"\xff", b"null"):
            status, text = post(url, body)
            assert status == 400, body[:20]
            assert "Traceback" not in text
        assert post(url, b" " * (MAX_BODY + 1))[0] == 413

    def test_a_session_that_was_not_opened_is_refused(
        self, serve: Callable[..., SkillServer], http: Callable[..., str]
    ) -> None:
        status, _ = post(
            http(serve()),
            {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
            MCP_Protocol_Version="2025-11-25",
            MCP_Session_Id="0" * 32,
        )
        assert status == 404

    @pytest.mark.each(
        "options",
        [
            {"host": "0.0.0.0"},
            {"host": "::"},
            {"host": "192.0.2.1"},
            {"host": "skills.example"},
            {"token": ""},
            {"token": " "},
            {"token": "ü"},
            {"token": "a\nb"},
            {"allowed_hosts": ["*"]},
            {"allowed_hosts": "skills.example"},
        ],
    )
    def test_what_would_let_everybody_in_is_refused(
        self, serve: Callable[..., SkillServer], options: dict[str, Any]
    ) -> None:
        async def main() -> None:
            await serve().run_http(**options)

        with pytest.raises(InvalidArgument) as refused:
            anyio.run(main)
        assert refused.value.hint

    @pytest.mark.parametrize("port", [-1, 70_000])
    def test_a_port_that_cannot_be_is_an_error(self, serve: Callable[..., SkillServer], port: int) -> None:
        async def main() -> None:
            await serve().run_http(port=port)

        with pytest.raises(SourceUnavailable):
            anyio.run(main)


def named(text: str) -> str:
    """The conversation that a result names."""
    found = re.search(r'conversation="([^"]+)"', text)
    assert found is not None, text
    return found[1]


def opened(url: str, **more: str) -> dict[str, str]:
    """The headers of requests in a session of the older protocols that has been opened."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    headers = {name: value for name, value in HEADERS.items() if not name.startswith("MCP")}
    try:
        connection.request("POST", "/mcp", json.dumps(body).encode(), headers | more)
        answer = connection.getresponse()
        answer.read()
        return {"MCP_Session_Id": answer.headers["mcp-session-id"], "MCP_Protocol_Version": "2025-06-18", **more}
    finally:
        connection.close()


class TestConversations:
    def test_without_a_session_a_conversation_is_named_by_the_result_that_loads_a_skill(
        self, serve: Callable[..., SkillServer], http: Callable[..., str], log: MemoryLog
    ) -> None:
        async def use(client: mcp.Client) -> str:
            tools = (await client.list_tools()).tools
            assert all("conversation" in tool.input_schema["properties"] for tool in tools)
            key = named(text_of(await client.call_tool("skills_load", {"skills": ["forms"]})))
            read = await client.call_tool("skills_read", {"path": "references/fields.md", "conversation": key})
            assert "Name and date." in text_of(read)
            return key

        key = talk(http(serve()), use)
        assert len(key) >= 32
        assert key not in repr(log.records)

    def test_nothing_that_one_client_loads_is_there_for_the_next(
        self, serve: Callable[..., SkillServer], http: Callable[..., str]
    ) -> None:
        url = http(serve())

        async def first(client: mcp.Client) -> None:
            await client.call_tool("skills_load", {"skills": ["forms"]})
            await client.get_prompt("deploy")

        async def second(client: mcp.Client) -> list[str]:
            return [
                text_of(await client.call_tool("skills_read", {"path": "references/fields.md"})),
                text_of(await client.call_tool("skills_unload", {"all": True})),
            ]

        for mode in MODES:
            talk(url, first, mode)
        for mode in MODES:
            read, unloaded = talk(url, second, mode)
            assert read.startswith("Error [skill-not-active]")
            assert unloaded == "No skill is active."

    def test_a_conversation_that_was_not_given_out_is_an_error(
        self, serve: Callable[..., SkillServer], http: Callable[..., str], log: MemoryLog
    ) -> None:
        wrong: dict[str, list[Any]] = {
            "session-not-found": ["no-such", "0" * 32],
            "invalid-argument": ["x" * 10_000, "", 7, ["a"]],
        }

        async def use(client: mcp.Client) -> None:
            for code, keys in wrong.items():
                for key in keys:
                    given = {"skills": ["forms"], "conversation": key}
                    text = text_of(await client.call_tool("skills_load", given))
                    assert text.startswith(f"Error [{code}]"), key
                    assert "conversation=" not in text

        talk(http(serve()), use)
        assert [(record.event, record.tool, record.code, record.success) for record in log.records] == [
            ("call", "skills_load", code, False) for code, keys in wrong.items() for _ in keys
        ]

    def test_conversations_that_had_to_make_room_go_on_when_they_are_used_again(
        self, serve: Callable[..., SkillServer], http: Callable[..., str]
    ) -> None:
        async def use(client: mcp.Client) -> list[bool]:
            keys = []
            for _ in range(4):
                keys.append(named(text_of(await client.call_tool("skills_load", {"skills": ["forms"]}))))
            given = [{"path": "references/fields.md", "conversation": key} for key in keys]
            return [(await client.call_tool("skills_read", one)).is_error for one in given * 2]

        assert not any(talk(http(serve(most=2)), use))

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("others", [2, pytest.param(3, marks=pytest.mark.slow)])
    def test_what_a_skill_restricts_is_not_lost_to_what_other_clients_do(
        self,
        serve: Callable[..., SkillServer],
        http: Callable[..., str],
        skills: Path,
        write_skill: Callable[..., Path],
        mode: str,
        others: int,
    ) -> None:
        write_skill(skills / "locked", more="allowed-tools: Read\n")
        url = http(serve(most=2, builtin=["Write"]))

        async def use(victim: mcp.Client) -> list[str]:
            loaded = text_of(await victim.call_tool("skills_load", {"skills": ["locked"]}))
            given = {"file_path": "a.txt", "content": "x"}
            given |= {} if mode == "legacy" else {"conversation": named(loaded)}
            found = [text_of(await victim.call_tool("Write", given))]
            for other in MODES:
                for _ in range(others):
                    async with connected(url, other) as client:
                        await client.call_tool("skills_load", {"skills": ["forms"]})
            return [*found, text_of(await victim.call_tool("Write", given))]

        before, after = talk(url, use, mode)
        assert before.startswith("Error [tool-not-allowed]")
        assert after == before

    def test_a_session_that_has_ended_is_not_found_any_more(
        self, serve: Callable[..., SkillServer], http: Callable[..., str]
    ) -> None:
        call = {"name": "skills_unload", "arguments": {"all": True}}
        unload = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
        server = serve()
        url = http(server)
        mine = opened(url)
        assert post(url, unload, **mine)[0] == 200
        server.close()
        assert post(url, unload, **mine)[0] == 404

    def test_the_session_of_a_transport_is_no_conversation_of_another_client(
        self, serve: Callable[..., SkillServer], http: Callable[..., str]
    ) -> None:
        url = http(serve())
        mine = opened(url)
        load = {"name": "skills_load", "arguments": {"skills": ["forms"]}}
        assert post(url, {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": load}, **mine)[0] == 200

        async def use(client: mcp.Client) -> str:
            given = {"path": "references/fields.md", "conversation": mine["MCP_Session_Id"]}
            return text_of(await client.call_tool("skills_read", given))

        assert talk(url, use).startswith("Error [session-not-found]")

    @pytest.mark.covers("ACC-7")
    @pytest.mark.parametrize("names", [("Write", "skills_load", "skills"), ("write", "skills.load", "names")])
    def test_tools_that_skills_can_forbid_need_a_conversation(
        self,
        serve: Callable[..., SkillServer],
        http: Callable[..., str],
        tmp_path: Path,
        log: MemoryLog,
        names: tuple[str, str, str],
    ) -> None:
        write, load, several = names

        async def use(client: mcp.Client) -> list[Any]:
            alone = await client.call_tool(write, {"file_path": "a.txt", "content": "x"})
            key = named(text_of(await client.call_tool(load, {several: ["forms"]})))
            given = {"file_path": "b.txt", "content": "x", "conversation": key}
            return [alone, await client.call_tool(write, given)]

        alone, inside = talk(http(serve(builtin=["Write"])), use)
        assert text_of(alone).startswith("Error [invalid-argument]")
        assert not inside.is_error
        assert [path.name for path in (tmp_path / "work").iterdir()] == ["b.txt"]
        assert [record.code for record in log.records if record.tool == "Write"] == ["invalid-argument", ""]

    @pytest.mark.parametrize(
        ("dialect", "tool", "arguments"),
        [
            ("runtime", "skills_read", {"skill": "forms", "path": "references/fields.md"}),
            ("tool", "skill", {"skill_name": "forms", "action": "read", "args": "references/fields.md"}),
            ("registry", "read_skill_resource", {"skill_id": "forms", "path": "references/fields.md"}),
            ("runtime", "skills.read", {"skill_name": "forms", "path": "references/fields.md"}),
            ("tool", "Skill", {"skill": "forms", "action": "read", "args": "references/fields.md"}),
            ("registry", "read_skill_resource", {"skill": "forms", "path": "references/fields.md"}),
        ],
    )
    def test_a_call_that_names_its_skill_needs_no_conversation(
        self,
        serve: Callable[..., SkillServer],
        http: Callable[..., str],
        log: MemoryLog,
        dialect: str,
        tool: str,
        arguments: dict[str, Any],
    ) -> None:
        async def use(client: mcp.Client) -> str:
            return text_of(await client.call_tool(tool, arguments))

        text = talk(http(serve(dialect=dialect)), use)
        assert "Name and date." in text
        assert "conversation=" not in text
        assert [(record.event, record.by) for record in log.records if record.skill] == [
            ("load", "model"),
            ("read", "model"),
            ("unload", "host"),
        ]

    def test_a_skill_that_may_not_be_loaded_may_not_be_used_without_a_conversation_either(
        self, serve: Callable[..., SkillServer], http: Callable[..., str], skills: Path
    ) -> None:
        (skills / "deploy" / "note.md").write_text("secret")

        async def use(client: mcp.Client) -> str:
            return text_of(await client.call_tool("skills_read", {"skill": "deploy", "path": "note.md"}))

        assert talk(http(serve()), use).startswith("Error [not-for-models]")

    def test_a_prompt_names_the_conversation_that_it_begins(
        self, serve: Callable[..., SkillServer], http: Callable[..., str]
    ) -> None:
        async def use(client: mcp.Client) -> str:
            (message,) = (await client.get_prompt("forms")).messages
            key = named(getattr(message.content, "text", ""))
            given = {"path": "references/fields.md", "conversation": key}
            return text_of(await client.call_tool("skills_read", given))

        assert "Name and date." in talk(http(serve()), use)

    def test_a_session_that_its_client_ends_is_unloaded(
        self, serve: Callable[..., SkillServer], http: Callable[..., str], log: MemoryLog
    ) -> None:
        async def use(client: mcp.Client) -> None:
            await client.call_tool("skills_load", {"skills": ["forms"]})

        talk(http(serve()), use, "legacy")

        async def unloaded() -> None:
            while not [record for record in log.records if record.event == "unload"]:
                await anyio.sleep(0.01)

        async def main() -> None:
            with anyio.fail_after(10):
                await unloaded()

        anyio.run(main)

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("count", [3, pytest.param(8, marks=pytest.mark.slow)])
    def test_many_clients_at_once_are_not_mixed_up(
        self, serve: Callable[..., SkillServer], http: Callable[..., str], mode: str, count: int
    ) -> None:
        library = Library.from_files(
            *(
                {"SKILL.md": f"---\nname: skill-{at}\ndescription: Does {at}.\n---\nDo {at}.", "note.md": f"note {at}"}
                for at in range(count)
            )
        )
        url = http(serve(library=library))

        async def use(at: int) -> None:
            async with connected(url, mode) as client:
                loaded = text_of(await client.call_tool("skills_load", {"skills": [f"skill-{at}"]}))
                given = {"path": "note.md"} | ({} if mode == "legacy" else {"conversation": named(loaded)})
                for _ in range(3):
                    assert f"\nnote {at}\n" in text_of(await client.call_tool("skills_read", given))

        async def main() -> None:
            with anyio.fail_after(30):
                async with anyio.create_task_group() as tasks:
                    for at in range(count):
                        tasks.start_soon(use, at)

        anyio.run(main)


class TestWhatIsListenedFor:
    @pytest.mark.parametrize(
        "uris",
        [
            [f"skill://forms/{number}.md" for number in range(MAX_SUBSCRIPTIONS + 1)],
            ["any text"],
            ["skill://forms/../x"],
            ["skill://forms/" + "x" * 10_000],
        ],
    )
    def test_too_much_and_what_is_no_address_is_refused(
        self, serve: Callable[..., SkillServer], uris: list[str]
    ) -> None:
        async def use(client: mcp.Client) -> None:
            with pytest.raises(MCPError):
                async with client.listen(resource_subscriptions=uris):
                    pass

        talk(serve(), use)

    def test_all_streams_together_are_bounded(
        self, serve: Callable[..., SkillServer], http: Callable[..., str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("metier.serve.mcp.connection.MAX_LISTENED", 100)
        uris = [f"skill://forms/{'x' * 50}.md"]

        async def use(client: mcp.Client) -> None:
            async with client.listen(resource_subscriptions=uris):
                with pytest.raises(MCPError, match="too much"):
                    async with client.listen(resource_subscriptions=uris):
                        pass

        talk(http(serve()), use)

        async def legacy(client: mcp.Client) -> None:
            await ask(client, "resources/subscribe", uri=uris[0])
            await ask(client, "resources/subscribe", uri=uris[0])
            with pytest.raises(MCPError, match="too much"):
                await ask(client, "resources/subscribe", uri=uris[0].replace("x", "y"))

        talk(http(serve()), legacy, "legacy")


class TestWhatGoesBackAndForth:
    @pytest.mark.parametrize("mode", MODES)
    def test_approval(self, serve: Callable[..., SkillServer], http: Callable[..., str], mode: str) -> None:
        asked, answer = answering(YES)

        async def use(client: mcp.Client) -> Any:
            loaded = text_of(await client.call_tool("skills_load", {"skills": ["forms"]}))
            more = {} if mode == "legacy" else {"conversation": named(loaded)}
            return await client.call_tool("skills_run", {"script": "scripts/echo.py"} | more)

        server = serve(Policy(unsandboxed="allow", scripts="ask"))
        assert not talk(http(server), use, mode, elicitation_callback=answer).is_error
        assert len(asked) == 1

    @pytest.mark.parametrize("mode", MODES)
    def test_progress_and_cancellation(
        self, serve: Callable[..., SkillServer], http: Callable[..., str], tmp_path: Path, log: MemoryLog, mode: str
    ) -> None:
        heard = anyio.Event()

        async def note(progress: float, total: float | None, message: str | None) -> None:
            heard.set()

        async def use(client: mcp.Client) -> None:
            async with anyio.create_task_group() as tasks:

                async def run() -> None:
                    await client.call_tool("skills_load", {"skills": ["forms"]})
                    given = {"script": "scripts/wait.py", "skill": "forms"}
                    await client.call_tool("skills_run", given, progress_callback=note)

                tasks.start_soon(run)
                await heard.wait()
                tasks.cancel_scope.cancel()
            while not [record for record in log.records if record.event == "call" and record.code == "cancelled"]:
                await anyio.sleep(0.01)

        talk(http(serve()), use, mode)
        assert not (tmp_path / "work" / "ended").exists()

    @pytest.mark.parametrize("mode", MODES)
    def test_changes(
        self,
        serve: Callable[..., SkillServer],
        http: Callable[..., str],
        skills: Path,
        write_skill: Callable[..., Path],
        mode: str,
    ) -> None:
        uri = "skill://quiet/SKILL.md"
        heard = anyio.Event()

        async def note(message: Any) -> None:
            if message.method == "notifications/resources/updated":
                heard.set()

        def edit() -> None:
            write_skill(skills / "quiet", description="Is loud.", body="Shout.")

        async def legacy(client: mcp.Client) -> None:
            await ask(client, "resources/subscribe", uri=uri)
            # The stream on which a server speaks first is opened by the client after the handshake, in its own time.
            number = 0
            while not heard.is_set():
                write_skill(skills / "quiet", description=f"Is loud {number}.", body="Shout.")
                number += 1
                with anyio.move_on_after(0.3):
                    await heard.wait()

        async def modern(client: mcp.Client) -> None:
            async with client.listen(resource_subscriptions=[uri]) as events:
                edit()
                async for event in events:
                    assert event == ResourceUpdated(uri=uri)
                    break

        talk(http(serve()), legacy if mode == "legacy" else modern, mode, message_handler=note)

    def test_a_resource_is_read_while_others_are_served(
        self, serve: Callable[..., SkillServer], http: Callable[..., str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        read, in_the_loop = Resources._read, list[bool]()

        def watched(*arguments: Any) -> Any:
            in_the_loop.append(asyncio._get_running_loop() is not None)
            return read(*arguments)

        monkeypatch.setattr(Resources, "_read", watched)

        async def use(client: mcp.Client) -> None:
            await client.read_resource("skill://forms/SKILL.md")

        talk(http(serve()), use)
        assert in_the_loop == [False]

    @pytest.mark.parametrize("mode", MODES)
    def test_the_skills_extension(self, serve: Callable[..., SkillServer], http: Callable[..., str], mode: str) -> None:
        async def use(client: mcp.Client) -> list[str]:
            return [entry["uri"] for entry in (await ask(client, "skills/list"))["skills"]]

        assert len(talk(http(serve()), use, mode)) == 3


@pytest.mark.parametrize("ended_by", ["timeout", "cancel"])
def test_who_mounts_the_app_sees_that_a_request_was_cancelled(serve: Callable[..., SkillServer], ended_by: str) -> None:
    app = serve().http_app()
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    }

    async def main() -> list[str]:
        sent: list[str] = []
        waits = asyncio.Event()

        async def receive() -> Any:
            waits.set()
            await asyncio.sleep(60)

        async def send(message: Any) -> None:
            sent.append(message["type"])

        async def request() -> None:
            async with asyncio.timeout(None) as limit:
                limits.append(limit)
                await app(scope, receive, send)

        limits: list[asyncio.Timeout] = []
        async with app.router.lifespan_context(app):
            task = asyncio.create_task(request())
            await waits.wait()
            if ended_by == "timeout":
                limits[0].reschedule(0)
            else:
                task.cancel()
            with pytest.raises(TimeoutError if ended_by == "timeout" else asyncio.CancelledError):
                await task
        return sent

    assert asyncio.run(main()) == []
