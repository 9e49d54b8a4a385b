"""Skills for the play, an MCP server, and the agents that perform it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import agents
import pytest
import uvicorn
from mcp.server import MCPServer
from tests.dialect.adapters.playing_agent_framework import AgentFramework
from tests.dialect.adapters.playing_langchain import LangChain, LangChainSync
from tests.dialect.adapters.playing_openai_agents import OpenAIAgents
from tests.dialect.adapters.playing_pydantic_ai import PydanticAI
from tests.dialect.adapters.playing_raw import RawAnthropic, RawGemini, RawOpenAI, RawResponses
from tests.dialect.adapters.stage import Outside, Performer, Script

from metier.guard import MemoryLog

QUICK = [PydanticAI]
"""Those that all is tried with in `make test`."""
PLAYING = [*QUICK, LangChain, OpenAIAgents, AgentFramework, RawOpenAI]
"""Those that have the play and tests of their own there, too; `make test-slow` tries all with every adapter."""


def _marked(adapters: Sequence[type[Performer]], quick: Sequence[type[Performer]]) -> list[Any]:
    return [pytest.param(one, marks=[] if one in quick else [pytest.mark.slow]) for one in adapters]


_STREAMING: list[type[Performer]] = [PydanticAI, LangChain, LangChainSync, OpenAIAgents, AgentFramework]
_PERFORMERS = [*_STREAMING, RawOpenAI, RawAnthropic]
STREAMING = _marked(_STREAMING, PLAYING)
"""Frameworks that stream by themselves."""
PERFORMERS = _marked(_PERFORMERS, QUICK)
"""Every adapter; that for bare clients without an event loop and with one."""
ADAPTERS = [*_PERFORMERS, RawResponses, RawGemini]
ALL = _marked(ADAPTERS, PLAYING)

FORKS = {"loop-a": "loop-b", "loop-b": "loop-a"} | {f"deep-{depth}": f"deep-{depth + 1}" for depth in range(1, 7)}

COUNT = """\
import sys
print("counted", len(sys.argv[1:]))
"""


@pytest.fixture
def folder(tmp_path: Path, write_skill: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Skills of every kind that an agent meets, and a workspace that no other test runs scripts in."""
    folder, workspace = tmp_path / "skills", tmp_path / "workspace"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    write_skill(folder / "report", description="Writes reports.", body="Write it.", more="allowed-tools: Read\n")
    for path, text in {"references/style.md": "Be brief.", "scripts/count.py": COUNT}.items():
        file = folder / "report" / path
        file.parent.mkdir()
        file.write_text(text)
    write_skill(folder / "research", description="Researches.", body="Research $ARGUMENTS.", more="context: fork\n")
    write_skill(folder / "think", description="Thinks hard.", body="Think.", more="model: big\n")
    write_skill(folder / "letters", description="Writes letters.", body="Dear reader.")
    write_skill(folder / "deploy", description="Deploys.", body="Deploy.", more="disable-model-invocation: true\n")
    write_skill(folder / "inner", description="Helps.", body="Help.", more="user-invocable: false\n")
    for name, other in FORKS.items():
        write_skill(folder / name, description=f"Loads {other}.", body=f"Load {other}.", more="context: fork\n")
    return folder


@dataclass
class Tickets:
    """An MCP server, in this process and by HTTP."""

    server: MCPServer
    url: str
    calls: list[str]


@pytest.fixture(scope="module")
def served_tickets() -> Iterator[Tickets]:
    """A server that runs for as long as a file of tests."""
    calls: list[str] = []
    server = MCPServer("tickets")

    @server.tool()
    def list_tickets(project: str) -> str:
        """List tickets."""
        calls.append(project)
        return f"no tickets in {project}"

    app = server.streamable_http_app()
    ready = threading.Event()
    http = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="on", ws="none"))
    started = http.startup

    async def startup(sockets: Any = None) -> None:
        await started(sockets)
        ready.set()

    http.startup = startup  # type: ignore[method-assign]
    thread = threading.Thread(target=http.run, daemon=True)
    thread.start()
    assert ready.wait(30)
    port = http.servers[0].sockets[0].getsockname()[1]
    try:
        yield Tickets(server, f"http://127.0.0.1:{port}/mcp", calls)
    finally:
        http.should_exit = True
        thread.join(30)


@pytest.fixture
def tickets(served_tickets: Tickets) -> Tickets:
    """The same with nothing called yet."""
    served_tickets.calls.clear()
    return served_tickets


@pytest.fixture
def log() -> MemoryLog:
    """What was recorded."""
    return MemoryLog()


@pytest.fixture
def outside() -> Outside:
    """Tools from elsewhere."""
    return Outside()


@pytest.fixture(
    params=PERFORMERS,
    ids=lambda performer: performer.name,
)
def performer(request: pytest.FixtureRequest) -> type[Performer]:
    """Every adapter."""
    chosen: type[Performer] = request.param
    return chosen


@pytest.fixture
def perform(
    performer: type[Performer], folder: Path, log: MemoryLog, outside: Outside, tmp_path: Path
) -> Callable[..., Performer]:
    """An agent with the skills, for a script."""
    (tmp_path / "work").mkdir()

    def perform(script: Script, **options: Any) -> Performer:
        given: dict[str, Any] = {"tools": [outside.web_fetch], "audit": log, "workspace": tmp_path / "work"}
        if "guard" in options:
            del given["audit"]
        return performer(folder, script, **(given | options))

    return perform


@pytest.fixture(autouse=True)
def no_traces() -> None:
    """The SDK of OpenAI would send traces home."""
    agents.set_trace_processors([])
