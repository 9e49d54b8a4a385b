"""Skills as prompts: what a person invokes by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent
from tests.serve.clients import MODES, in_one_mode, talk, text_of

from metier.guard import MemoryLog
from metier.serve.mcp import SkillServer
from metier.session.context import MAX_ACTIVE


@pytest.mark.parametrize("mode", MODES)
def test_there_is_a_prompt_for_each_skill_that_people_may_invoke(serve: Callable[..., SkillServer], mode: str) -> None:
    async def use(client: mcp.Client) -> dict[str, list[tuple[str, bool | None]]]:
        prompts = (await client.list_prompts()).prompts
        return {one.name: [(given.name, given.required) for given in one.arguments or ()] for one in prompts}

    assert talk(serve(), use, mode) == {
        "deploy": [("args", False)],
        "forms": [("args", False)],
        "letters": [("who", True), ("what", False)],
    }


async def said(client: mcp.Client, name: str, **arguments: str) -> str:
    (message,) = (await client.get_prompt(name, arguments)).messages
    assert message.role == "user"
    assert isinstance(message.content, TextContent)
    return message.content.text


@in_one_mode
def test_arguments_stand_where_the_skill_has_them(serve: Callable[..., SkillServer], mode: str) -> None:
    async def use(client: mcp.Client) -> list[str]:
        return [
            await said(client, "forms", args="form 7"),
            await said(client, "letters", who="Ada Lovelace; $who", what="it's late"),
            await said(client, "letters", who="Ada"),
        ]

    one, both, first = talk(serve(), use, mode)
    assert "Fill form 7." in one
    assert "To Ada Lovelace; $who about it's late." in both
    assert "To Ada about {{ what }}." in first


@in_one_mode
def test_a_person_loads_what_models_may_not(serve: Callable[..., SkillServer], log: MemoryLog, mode: str) -> None:
    async def use(client: mcp.Client) -> Any:
        assert "Deploy." in await said(client, "deploy")
        return await client.call_tool("skills_unload", {"skills": ["deploy"]})

    assert not talk(serve(), use, mode).is_error
    assert [(record.event, record.by, record.skill) for record in log.records if record.skill] == [
        ("load", "client", "deploy"),
        ("unload", "model", "deploy"),
    ]


@in_one_mode
def test_the_skill_of_a_prompt_is_active_afterwards(serve: Callable[..., SkillServer], mode: str) -> None:
    async def use(client: mcp.Client) -> str:
        await said(client, "forms")
        return text_of(await client.call_tool("skills_read", {"path": "references/fields.md"}))

    assert "Name and date." in talk(serve(), use, mode)


@in_one_mode
def test_a_prompt_makes_room_for_its_skill(
    serve: Callable[..., SkillServer], skills: Path, write_skill: Callable[..., Path], log: MemoryLog, mode: str
) -> None:
    names = [f"skill-{number}" for number in range(MAX_ACTIVE + 1)]
    for name in names:
        write_skill(skills / name, description="Is one of many.", body=f"Do {name}.")

    async def use(client: mcp.Client) -> None:
        for name in names:
            assert f"Do {name}." in await said(client, name)
        unloaded = [(record.skill, record.by) for record in log.records if record.event == "unload"]
        assert unloaded == [("skill-0", "client")]

    talk(serve(), use, mode)


WRONG: list[tuple[str, dict[str, str], str]] = [
    ("no-such", {}, "skill-not-found"),
    ("FORMS", {}, "skill-not-found"),
    ("quiet", {}, "not-for-people"),
    ("forms", {"other": "x"}, "invalid-argument"),
    ("letters", {}, "invalid-argument"),
    ("letters", {"who": ""}, "invalid-argument"),
    ("forms", {"args": "x" * 100_000}, "invalid-argument"),
    ("../etc", {}, "skill-not-found"),
]


@in_one_mode
def test_what_cannot_be_invoked_is_an_error_with_code_and_hint(serve: Callable[..., SkillServer], mode: str) -> None:
    async def use(client: mcp.Client) -> None:
        for name, arguments, code in WRONG:
            with pytest.raises(MCPError) as refused:
                await client.get_prompt(name, arguments)
            assert refused.value.error.code == -32602
            assert refused.value.error.data["code"] == code, name
            assert refused.value.error.data["hint"]

    talk(serve(), use, mode)


@pytest.mark.covers("A-7")
def test_people_pick_from_what_policy_keeps_from_models_and_not_from_what_it_denies(
    serve: Callable[..., SkillServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "policy.yaml").write_text("version: 1\nskills: {deny: [letters], listing: {forms: manual}}\n")
    monkeypatch.setenv("METIER_POLICY", str(tmp_path / "policy.yaml"))

    async def use(client: mcp.Client) -> tuple[list[str], str]:
        return [one.name for one in (await client.list_prompts()).prompts], await said(client, "forms", args="form 7")

    names, text = talk(serve(), use)
    assert names == ["deploy", "forms"]
    assert "Fill form 7." in text
