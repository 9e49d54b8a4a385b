"""What a long script writes is told while it runs, and a cancelled call ends it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import mcp
import pytest
from tests.serve.clients import MODES, talk

from metier.guard import MemoryLog
from metier.serve.mcp import SkillServer


@pytest.mark.parametrize("mode", MODES)
def test_progress_comes_while_a_script_runs(serve: Callable[..., SkillServer], tmp_path: Path, mode: str) -> None:
    told: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))
        # The script ends once it has been heard of.
        (tmp_path / "work" / "go on").touch()

    async def use(client: mcp.Client) -> Any:
        await client.call_tool("skills_load", {"skills": ["forms"]})
        return await client.call_tool("skills_run", {"script": "scripts/wait.py"}, progress_callback=note)

    assert not talk(serve(), use, mode).is_error
    assert told == [(1, "begun")]


async def until_there(path: Path) -> None:
    while not path.exists():
        await anyio.sleep(0.01)


@pytest.mark.parametrize("mode", MODES)
def test_a_cancelled_call_ends_the_script(
    serve: Callable[..., SkillServer], tmp_path: Path, log: MemoryLog, mode: str
) -> None:
    work = tmp_path / "work"

    async def use(client: mcp.Client) -> None:
        await client.call_tool("skills_load", {"skills": ["forms"]})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "skills_run", {"script": "scripts/wait.py"})
            await until_there(work / "begun")
            tasks.cancel_scope.cancel()
        while not [record for record in log.records if record.event == "call" and record.code == "cancelled"]:
            await anyio.sleep(0.01)
        # Somebody who still waited for this would go on now.
        (work / "go on").touch()
        await client.call_tool("skills_run", {"script": "scripts/echo.py"})

    talk(serve(), use, mode)
    assert not (work / "ended").exists()
