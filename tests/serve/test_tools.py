"""Skills as tools, over both generations of the protocol."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import mcp
import pytest
from tests.serve.clients import MODES, in_one_mode, talk, text_of

from metier.guard import MemoryLog, Policy
from metier.serve.mcp import SkillServer
from metier.serve.mcp.concurrency import ConcurrencyLimit, ServerBusy

DIALECTS = {
    "runtime": ["skills_load", "skills_unload", "skills_read", "skills_run", "skills_search"],
    "tool": ["skill"],
    "registry": ["list_skills", "read_skill", "read_skill_resource"],
    "sandbox": ["get_skill", "sandbox_execute"],
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_tools_of_each_dialect_are_listed(serve: Callable[..., SkillServer], dialect: str) -> None:
    async def names(client: mcp.Client) -> list[str]:
        return [tool.name for tool in (await client.list_tools()).tools]

    assert talk(serve(dialect=dialect), names) == DIALECTS[dialect]


@pytest.mark.parametrize("mode", MODES)
def test_a_skill_is_loaded_read_run_and_unloaded(serve: Callable[..., SkillServer], log: MemoryLog, mode: str) -> None:
    async def use(client: mcp.Client) -> list[Any]:
        return [
            await client.call_tool("skills_load", {"skills": ["forms"], "args": "this"}),
            await client.call_tool("skills_read", {"path": "references/fields.md"}),
            await client.call_tool("skills_run", {"script": "scripts/echo.py", "args": ["a b"]}),
            await client.call_tool("skills_unload", {"all": True}),
        ]

    loaded, read, ran, unloaded = talk(serve(), use, mode)
    assert not any(result.is_error for result in (loaded, read, ran, unloaded))
    assert "Fill this." in text_of(loaded)
    assert "Name and date." in text_of(read)
    assert json.loads(text_of(ran))["stdout"] == "arguments: a b\ndone\n"
    assert text_of(unloaded) == "No skill is active."
    assert [(record.event, record.by) for record in log.records if record.event in ("load", "read", "run")] == [
        ("load", "model"),
        ("read", "model"),
        ("run", "model"),
    ]


@in_one_mode
def test_a_skill_that_is_loaded_again_is_sent_whole(serve: Callable[..., SkillServer], mode: str) -> None:
    """A client may have dropped what it was sent before, and says nothing of it."""

    async def use(client: mcp.Client) -> list[str]:
        return [text_of(await client.call_tool("skills_load", {"skills": ["quiet"]})) for _ in range(2)]

    assert all("Hush." in text for text in talk(serve(), use, mode))


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("skills_lod", {}, "tool-not-found"),
    ("skills_load", {}, "invalid-arguments"),
    ("skills_load", {"skills": ["no-such"]}, "skill-not-found"),
    ("skills_load", {"skills": ["deploy"]}, "not-for-models"),
    ("skills_load", {"skills": ["forms"], "more": 1}, "invalid-arguments"),
    ("skills_load", {"skills": ["x" * 100_000]}, "skill-not-found"),
    ("skills_load", {"skills": ["forms"], "conversation": "x"}, "invalid-arguments"),
    ("skills_read", {"path": "../../etc/passwd", "skill": "forms"}, "skill-not-active"),
    ("skills_run", {"script": "scripts/echo.py"}, "skill-not-active"),
]


@in_one_mode
def test_what_cannot_be_done_is_a_result_with_a_code(serve: Callable[..., SkillServer], mode: str) -> None:
    async def use(client: mcp.Client) -> None:
        for tool, arguments, code in WRONG:
            result = await client.call_tool(tool, arguments)
            assert result.is_error
            assert text_of(result).startswith(f"Error [{code}]: "), (tool, code)

    talk(serve(), use, mode)


def test_arguments_nested_without_end_are_refused(serve: Callable[..., SkillServer]) -> None:
    deep: Any = []
    for _ in range(150):
        deep = [deep]

    async def use(client: mcp.Client) -> Any:
        return await client.call_tool("skills_load", {"skills": deep})

    assert text_of(talk(serve(), use)).startswith("Error [invalid-arguments]")


@in_one_mode
def test_a_script_that_is_read_instead_of_run_is_refused(serve: Callable[..., SkillServer], mode: str) -> None:
    async def use(client: mcp.Client) -> Any:
        await client.call_tool("skills_load", {"skills": ["forms"]})
        return await client.call_tool("skills_read", {"path": "scripts/echo.py"})

    assert text_of(talk(serve(), use, mode)).startswith("Error [script-read]")


@in_one_mode
def test_a_blocked_skill_is_gone_at_once(serve: Callable[..., SkillServer], mode: str) -> None:
    server = serve()

    async def use(client: mcp.Client) -> Any:
        await client.call_tool("skills_load", {"skills": ["forms"]})
        server.guard.block("forms")
        listed = [prompt.name for prompt in (await client.list_prompts()).prompts]
        listed += [resource.name for resource in (await client.list_resources()).resources]
        assert "forms" not in listed
        return await client.call_tool("skills_read", {"path": "references/fields.md", "skill": "forms"})

    assert talk(server, use, mode).is_error


@in_one_mode
def test_what_a_policy_denies_is_refused_and_recorded(
    serve: Callable[..., SkillServer], log: MemoryLog, mode: str
) -> None:
    async def use(client: mcp.Client) -> Any:
        await client.call_tool("skills_load", {"skills": ["forms"]})
        return await client.call_tool("skills_run", {"script": "scripts/echo.py"})

    result = talk(serve(Policy(unsandboxed="allow", scripts="deny")), use, mode)
    assert text_of(result).startswith("Error [scripts-denied]")
    assert [(record.decision, record.code) for record in log.records if record.event == "run"] == [
        ("deny", "scripts-denied")
    ]


@in_one_mode
def test_built_in_tools_are_under_the_rules_of_the_active_skills(
    serve: Callable[..., SkillServer], write_skill: Callable[..., Any], skills: Any, mode: str
) -> None:
    write_skill(skills / "reader", description="Reads.", body="Read.", more="allowed-tools: Read\n")

    async def use(client: mcp.Client) -> list[Any]:
        before = await client.call_tool("Write", {"file_path": "a.txt", "content": "x"})
        await client.call_tool("skills_load", {"skills": ["reader"]})
        return [before, await client.call_tool("Write", {"file_path": "b.txt", "content": "x"})]

    before, after = talk(serve(builtin=["Write"]), use, mode)
    assert not before.is_error
    assert text_of(after).startswith("Error [tool-not-allowed]")


def test_a_script_for_which_there_is_no_turn_is_told_so(
    serve: Callable[..., SkillServer], log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(turns: ConcurrencyLimit, key: str) -> None:
        raise ServerBusy

    monkeypatch.setattr(ConcurrencyLimit, "of", none)

    async def use(client: mcp.Client) -> str:
        await client.call_tool("skills_load", {"skills": ["forms"]})
        return text_of(await client.call_tool("skills_run", {"script": "scripts/echo.py"}))

    assert talk(serve(), use).startswith("Error [busy]")
    assert [(record.tool, record.code) for record in log.records if record.event == "call"] == [
        ("skills_load", ""),
        ("skills_run", "busy"),
    ]
