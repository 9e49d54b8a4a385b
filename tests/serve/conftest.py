"""A folder of skills, and servers over it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio.from_thread
import pytest

from metier import Library
from metier.guard import MemoryLog, Policy
from metier.run import PlainRunner
from metier.serve.mcp import SkillServer

ECHO = 'import sys\nprint("arguments:", *sys.argv[1:])\nprint("done")\n'
WAIT = """\
import pathlib, sys, time
print("begun", flush=True)
here = pathlib.Path.cwd()
(here / "begun").touch()
for _ in range(2000):
    if (here / "go on").exists():
        break
    time.sleep(0.01)
(here / "ended").touch()
"""


@pytest.fixture
def skills(tmp_path: Path, write_skill: Callable[..., Path]) -> Path:
    """Skills of several kinds: with files, with declared arguments, for people only, for models only."""
    folder = tmp_path / "skills"
    write_skill(folder / "forms", description="Fills forms.", body="Fill $ARGUMENTS.", more="version: 1.10\n")
    files: dict[str, bytes] = {
        "scripts/echo.py": ECHO.encode(),
        "scripts/wait.py": WAIT.encode(),
        "references/fields.md": b"Name and date.\r\n",
        "references/deep/two words.md": "Grüße.\n".encode(),
        "assets/logo.bin": b"\0\1\xff",
    }
    for path, data in files.items():
        file = folder / "forms" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    write_skill(
        folder / "letters",
        description="Writes letters.",
        body="To $who about {{ what }}.",
        more="arguments:\n  - name: who\n    description: Who gets it.\n    required: true\n  - name: what\n",
    )
    write_skill(folder / "deploy", description="Deploys.", body="Deploy.", more="disable-model-invocation: true\n")
    write_skill(folder / "quiet", description="Is quiet.", body="Hush.", more="user-invocable: false\n")
    return folder


@pytest.fixture
def log() -> MemoryLog:
    """What was recorded."""
    return MemoryLog()


@pytest.fixture
def serve(tmp_path: Path, skills: Path, log: MemoryLog, quiet_files: None) -> Iterator[Callable[..., SkillServer]]:
    """Makes servers over the skills, in which scripts may run, and closes them."""
    work = tmp_path / "work"
    work.mkdir()
    made: list[SkillServer] = []

    def serve(policy: Policy | None = None, library: Library | None = None, **options: Any) -> SkillServer:
        if "guard" not in options:
            options |= {"policy": policy or Policy(unsandboxed="allow"), "audit": log}
        if library is None:
            library = Library.from_folder(skills, cache=False)
        made.append(SkillServer(library, workspace=work, runner=PlainRunner(), **options))
        return made[-1]

    yield serve
    for server in made:
        server.close()


class Hurried:
    """What a server uses of `asyncio` that looks ten times a second whether it is to end: here a hundred times."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 10)


@pytest.fixture
def http(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Runs servers on loopback, and stops them; gives the URL of each."""
    monkeypatch.setattr("uvicorn.server.asyncio", Hurried())
    with contextlib.ExitStack() as running:

        def start(server: SkillServer, **options: Any) -> str:
            ready = threading.Event()
            urls: list[str] = []

            def on_ready(url: str) -> None:
                urls.append(url)
                ready.set()

            async def main() -> None:
                await server.run_http(on_ready=on_ready, **options)

            portal = running.enter_context(anyio.from_thread.start_blocking_portal())
            future = portal.start_task_soon(main)
            running.callback(future.cancel)
            assert ready.wait(20)
            return urls[0]

        yield start
