"""Tools that answer from a suite and do nothing: by patterns of their arguments, with errors, or by a function.

For our own agent they are tools, which stand before the real ones of the same name (`mock_tools`). For a client program
they are servers of MCP, which it starts itself (`mock_servers`).
"""

from __future__ import annotations

import json
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from metier._json_object import parse_object
from metier._lazy import asdict, pattern, replace
from metier.errors import MetierError
from metier.proof.graders import argument_fits
from metier.proof.suite import Mock, TextMatch
from metier.proof.text_match import strict_json
from metier.run.environment import find_program
from metier.run.job import Job, Limits
from metier.run.selection import AutoRunner
from metier.skill import shown
from metier.skill.tool_rules import canonical_tool
from metier.tools.tool import DEFAULT_TIMEOUT, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from metier.proof.suite import Environment
    from metier.tools.tool import Tool

FUNCTION_SECONDS = 10.0
_MCP_TOOL = pattern(r"mcp__(.+?)__(.+)")
_ANY_OBJECT: Mapping[str, Any] = {"type": "object"}
_CALL = """
import contextlib, json, sys
question = json.load(sys.stdin)
names = {"__name__": "mocks"}
with contextlib.redirect_stdout(sys.stderr):
    exec(compile(question["source"], question["path"], "exec"), names)
    answer = names[question["function"]](question["arguments"])
json.dump(answer, sys.stdout, allow_nan=False)
"""


class MockTool:
    """A tool of a suite, perhaps in place of a real one, which gets the calls that no mock is about."""

    def __init__(
        self, name: str, mocks: Sequence[Mock], sources: Mapping[str, bytes], real: Tool | None = None
    ) -> None:
        """`sources` are the files that functions of mocks are taken from, by path."""
        self.name = name
        self.is_control = real.is_control if real else False
        self.timeout = real.timeout if real else DEFAULT_TIMEOUT
        self.description = real.description if real else next((m.description for m in mocks if m.description), name)
        schema = next((mock.schema for mock in mocks if mock.schema is not None), _ANY_OBJECT)
        self.parameters = real.parameters if real else schema
        self._mocks, self._sources, self._real = tuple(mocks), sources, real

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Answer from the suite, or by the real tool where no mock fits."""
        from anyio.to_thread import run_sync

        mock = self.mock_for(arguments)
        if mock is None and self._real is not None:
            return await self._real.call(arguments)
        return await run_sync(self.answer, arguments)

    def mock_for(self, arguments: Mapping[str, Any]) -> Mock | None:
        """The first mock that is about such arguments."""
        fitting = (m for m in self._mocks if all(argument_fits(arguments, *one) for one in m.arguments.items()))
        return next(fitting, None)

    def answer(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Answer from the suite alone."""
        mock = self.mock_for(arguments)
        if mock is None:
            hint = "Add one to the suite without conditions, to answer all calls."
            return ToolResult.failure("no-mock", f"No mock of {shown(self.name)} is about such arguments.", hint=hint)
        if mock.error:
            return ToolResult.failure("mock-error", mock.error)
        return ToolResult(success=True, result=mock.result) if not mock.function else self._call(mock, arguments)

    def _call(self, mock: Mock, arguments: Mapping[str, Any]) -> ToolResult:
        path, _, function = mock.function.partition(":")
        source = self._sources.get(path)
        if source is None:
            return ToolResult.failure("mock-failed", f"The suite has no file {shown(path)} for the mock.")
        try:
            return call_function(path, source, function, arguments)
        except (MetierError, ValueError) as error:
            return ToolResult.failure(
                "mock-failed", f"The mock {shown(mock.function)} failed: {shown(str(error), 300)}"
            )


def call_function(path: str, source: bytes, function: str, arguments: Mapping[str, Any]) -> ToolResult:
    """Call a function of a Python file with the arguments, in a sandbox with an empty folder and no network."""
    names = {"source": source.decode(errors="replace"), "path": path, "function": function}
    with tempfile.TemporaryDirectory(prefix="metier-mock-") as folder:
        job = Job(
            argv=(find_program("python3"), "-I", "-c", _CALL),
            folder=folder,
            stdin=json.dumps({**names, "arguments": dict(arguments)}, default=str).encode(),
            limits=Limits(seconds=FUNCTION_SECONDS),
        )
        outcome = AutoRunner().run_blocking(job)
    if not outcome.is_success or outcome.is_truncated:
        last = (outcome.stderr.strip().splitlines() or [outcome.killed_by or "it gave no answer"])[-1]
        return ToolResult.failure("mock-failed", f"The mock {shown(path)}:{shown(function)} failed: {shown(last, 300)}")
    return ToolResult(success=True, result=strict_json(outcome.stdout))


def mock_tools(
    environment: Environment, real: Iterable[Tool] = (), *, sources: Mapping[str, bytes] | None = None
) -> list[Tool]:
    """Real tools with the mocks of a case before them, and then those that only the suite has.

    Give the result to an executor in place of the real tools: rules decide about all of them as they do about others.

    >>> from metier.proof.suite import Environment
    >>> weather = Mock(tool="weather", arguments={"city": TextMatch(equals="Rome")}, result="sunny")
    >>> [tool] = mock_tools(Environment(mocks=(weather,)))
    >>> tool.name, tool.answer({"city": "Rome"}).result, tool.answer({"city": "Oslo"}).code
    ('weather', 'sunny', 'no-mock')
    """
    of_servers = (
        replace(one, tool=f"mcp__{name}__{one.tool}") for name, several in environment.mcp.items() for one in several
    )
    waiting = _by_tool((*environment.mocks, *of_servers))
    tools: list[Tool] = []
    for tool in real:
        mocks = waiting.pop(canonical_tool(tool.name), None)
        tools.append(MockTool(tool.name, mocks, sources or {}, tool) if mocks else tool)
    return [*tools, *(MockTool(mocks[0].tool, mocks, sources or {}) for mocks in waiting.values())]


def _by_tool(mocks: Iterable[Mock]) -> dict[str, list[Mock]]:
    found: dict[str, list[Mock]] = {}
    for mock in mocks:
        found.setdefault(canonical_tool(mock.tool), []).append(mock)
    return found


def mock_servers(
    environment: Environment, folder: Path, *, sources: Mapping[str, bytes] | None = None
) -> dict[str, list[str]]:
    """Write a file for each MCP server of a case, and return the commands that start them, by the servers' names."""
    servers = {name: list(mocks) for name, mocks in environment.mcp.items()}
    for mock in environment.mocks:
        if found := _MCP_TOOL.fullmatch(mock.tool):
            servers.setdefault(found[1], []).append(replace(mock, tool=found[2]))
    commands = {}
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, mocks) in enumerate(servers.items()):
        named = {mock.function.partition(":")[0] for mock in mocks}
        texts = {path: data.decode(errors="replace") for path, data in (sources or {}).items() if path in named}
        file = folder / f"server-{number}.json"
        content = {"mocks": [asdict(mock) for mock in mocks], "sources": texts}
        file.write_text(json.dumps(content, default=str), "utf-8")
        commands[name] = [sys.executable, "-P", "-m", "metier.proof.mock_server", str(file)]
    return commands


def read_server(file: Path) -> list[MockTool]:
    """The tools of a file that `mock_servers` wrote."""
    content = parse_object(file.read_bytes(), most=64 * 1024 * 1024)
    sources = {path: text.encode() for path, text in content["sources"].items()}
    mocks = [
        Mock(**{**one, "arguments": {name: TextMatch(**match) for name, match in one["arguments"].items()}})
        for one in content["mocks"]
    ]
    return [MockTool(several[0].tool, several, sources) for several in _by_tool(mocks).values()]
