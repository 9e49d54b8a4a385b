"""The server as a whole: what it says first, and what it needs."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp
import pytest
from tests.serve.clients import MODES, talk, text_of

from metier import Library
from metier.errors import InvalidArgument
from metier.guard import Guard, MemoryLog, Policy
from metier.serve.mcp import SkillServer


async def instructions(client: mcp.Client) -> str:
    return client.instructions or ""


@pytest.mark.parametrize("mode", MODES)
def test_the_instructions_say_how_to_load_and_what_there_is(serve: Callable[..., SkillServer], mode: str) -> None:
    text = talk(serve(), instructions, mode)
    assert "`skills_load`" in text
    assert "Fills forms." in text
    assert "deploy" not in text


def test_the_instructions_stay_within_the_budget(serve: Callable[..., SkillServer]) -> None:
    library = Library.from_files(
        *({"SKILL.md": f"---\nname: skill-{at}\ndescription: {'Does it. ' * 20}\n---\nDo."} for at in range(300))
    )
    text = talk(serve(library=library, budget=2_000), instructions)
    assert len(text) < 5_000
    assert "skills_search" in text


def test_the_instructions_are_those_of_now(serve: Callable[..., SkillServer]) -> None:
    server = serve()
    server.guard.block("forms")
    assert "Fills forms." not in talk(server, instructions)


@pytest.mark.parametrize("mode", MODES)
def test_the_event_loop_does_not_wait_for_the_instructions(
    serve: Callable[..., SkillServer], monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    made_in: list[threading.Thread] = []

    def made(self: SkillServer) -> str:
        made_in.append(threading.current_thread())
        return "Made."

    monkeypatch.setattr(SkillServer, "instructions", made)

    async def use(client: mcp.Client) -> tuple[str | None, threading.Thread]:
        return client.instructions, threading.current_thread()

    text, loop = talk(serve(), use, mode)
    assert text == "Made."
    assert made_in
    assert loop not in made_in


def test_only_named_skills_are_served(serve: Callable[..., SkillServer]) -> None:
    async def use(client: mcp.Client) -> list[str]:
        found = [prompt.name for prompt in (await client.list_prompts()).prompts]
        return found + [resource.name for resource in (await client.list_resources()).resources]

    assert talk(serve(names=["quiet", "letters"]), use) == ["letters", "letters", "quiet"]


def test_a_folder_is_enough(skills: Path) -> None:
    async def use(client: mcp.Client) -> int:
        return len((await client.list_resources()).resources)

    server = SkillServer(skills, audit=MemoryLog())
    assert talk(server, use) == 3
    server.close()


@pytest.mark.each(
    "options",
    [
        {"guard": Guard(audit=MemoryLog()), "policy": Policy()},
        {"dialect": "no-such"},
        {"builtin": ["NoSuch"]},
        {"delivery": "instructions"},
        {"no_such": 1},
    ],
)
def test_options_that_cannot_work_are_refused_at_once(skills: Path, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as refused:
        SkillServer(skills, **options)
    assert refused.value.hint


def test_a_skill_that_was_added_before_the_first_request_is_there(
    serve: Callable[..., SkillServer], skills: Path, write_skill: Callable[..., Path]
) -> None:
    server = serve()
    write_skill(skills / "new-one", description="Is new.", body="Do what is new.")

    async def use(client: mcp.Client) -> str:
        return text_of(await client.call_tool("skills_load", {"skills": ["new-one"]}))

    assert "Do what is new." in talk(server, use)


def test_a_skill_that_is_blocked_by_its_content_is_not_shown(serve: Callable[..., SkillServer]) -> None:
    server = serve()
    server.guard.block(server.library.digest("quiet"))

    async def use(client: mcp.Client) -> list[str]:
        return [resource.name for resource in (await client.list_resources()).resources]

    assert talk(server, use) == ["forms", "letters"]


def test_without_the_package_the_error_says_what_to_install() -> None:
    script = """\
import sys
sys.modules["mcp"] = None
from metier.errors import PartMissing
try:
    from metier.serve.mcp import SkillServer
except PartMissing as error:
    print(error.code, error.hint)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "part-missing pip install 'metier[mcp]'\n"
