"""Over standard input and output, as a program that a client starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import mcp
import pytest
from tests.serve.clients import MODES, YES, answering, ask, talk, text_of

from metier.serve.mcp import SkillServer, stdio

RUNNER = """\
import sys
import anyio
from metier import Library
from metier.guard import MemoryLog, Policy
from metier.run import PlainRunner
from metier.serve.mcp import SkillServer

server = SkillServer(
    Library.from_folder(sys.argv[1], cache=False),
    policy=Policy(unsandboxed="allow", scripts="ask"),
    audit=MemoryLog(),
    runner=PlainRunner(),
)
print("what is printed by mistake goes elsewhere", file=sys.stderr)
anyio.run(server.run_stdio)
"""


@pytest.mark.slow  # The command does it in quick tests, where no interpreter has to import all of it.
@pytest.mark.parametrize("mode", MODES)
def test_a_program_serves_the_one_that_started_it(skills: Path, tmp_path: Path, mode: str) -> None:
    asked, answer = answering(YES)
    told: list[str | None] = []
    started = mcp.StdioServerParameters(command=sys.executable, args=["-c", RUNNER, str(skills)], cwd=tmp_path)

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async def use(client: mcp.Client) -> list[Any]:
        assert "forms" in (client.instructions or "")
        assert len((await ask(client, "skills/list"))["skills"]) == 3
        return [
            await client.call_tool("skills_load", {"skills": ["forms"]}),
            await client.call_tool("skills_read", {"path": "references/fields.md"}),
            await client.call_tool("skills_run", {"script": "scripts/echo.py"}, progress_callback=note),
        ]

    results = talk(started, use, mode, elicitation_callback=answer)
    assert not any(result.is_error for result in results)
    assert "Name and date." in text_of(results[1])
    assert (len(asked), told) == (1, ["done"])


@pytest.mark.parametrize("mode", MODES)
def test_each_connection_has_a_session_of_its_own(serve: Callable[..., SkillServer], mode: str) -> None:
    server = serve()

    async def first(client: mcp.Client) -> None:
        await client.call_tool("skills_load", {"skills": ["forms"]})

        async def second(other: mcp.Client) -> str:
            return text_of(await other.call_tool("skills_unload", {"all": True}))

        async with mcp.Client(server.protocol, mode=mode) as other:
            assert await second(other) == "No skill is active."
        assert "Name and date." in text_of(await client.call_tool("skills_read", {"path": "references/fields.md"}))

    talk(server, first, mode)


@pytest.mark.skipif(sys.platform == "win32", reason="the SDK reads standard input there")
@pytest.mark.each(
    ("sent", "lines"),
    [
        ((b"", b""), []),
        ((b"one\ntwo\n",), ["one", "two"]),
        ((b"one\r\ntwo\rthree",), ["one", "two", "three"]),
        ((b"o", b"ne\r", b"\n\ntw\xc3", b"\xa9"), ["one", "", "tw\u00e9"]),
        ((b"\xff\n", b"x" * 200_000 + b"\n"), ["\ufffd", "x" * 200_000]),
    ],
)
def test_lines_of_a_client_may_come_in_pieces_and_end_in_any_way(sent: tuple[bytes, ...], lines: list[str]) -> None:
    incoming, outgoing = os.pipe()

    async def send() -> None:
        for piece in sent:
            await anyio.to_thread.run_sync(write_all, outgoing, piece)
            await anyio.wait_all_tasks_blocked()
        os.close(outgoing)

    async def receive() -> list[str]:
        found: list[str] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            found.extend([line async for line in stdio._lines(incoming)])
        return found

    try:
        assert anyio.run(receive) == lines
    finally:
        os.close(incoming)


@pytest.mark.skipif(sys.platform == "win32", reason="the SDK reads standard input there")
def test_lines_of_a_file_are_read_as_those_of_a_client(tmp_path: Path) -> None:
    path = tmp_path / "messages"
    path.write_bytes(b"one\ntwo")

    async def read() -> list[str]:
        with path.open("rb") as file:
            return [line async for line in stdio._lines(file.fileno())]

    assert anyio.run(read) == ["one", "two"]


def write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
