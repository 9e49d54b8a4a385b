"""Tools that answer from a suite."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from metier.proof.mocks import mock_servers, mock_tools
from metier.proof.subject import subject_of
from metier.proof.suite import Environment, Mock, Suite, TextMatch
from metier.run.selection import AutoRunner
from metier.testing import library, skill
from metier.tools import Executor, FunctionTool, ToolRegistry

sandboxed = pytest.mark.skipif(not AutoRunner().capabilities().isolates_files, reason="there is no sandbox here")

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
PYTHON = b"def find(arguments):\n    print('noise')\n    return {'name': arguments['name'].upper()}\n"
MOCKS = (
    Mock(tool="Bash", arguments={"command": TextMatch(contains=("git push",))}, error="rejected: no network"),
    Mock(tool="run_shell_command", arguments={"command": TextMatch(regex=("^date",))}, result="Thu"),
    Mock(tool="weather", result="sunny", description="Tells the weather."),
    Mock(tool="mcp__mail__send", result="sent"),
)
CRM = {
    "crm": (
        Mock(tool="find", function="evals/mocks.py:find", description="Finds people.", schema=SCHEMA),
        Mock(tool="count", result="2"),
    )
}
HERE = Environment(mocks=MOCKS, mcp=CRM)
SOURCES = {"evals/mocks.py": PYTHON, "evals/other.py": b""}


def bash(command: str) -> str:
    return f"really ran {command}"


def executor(environment: Environment = HERE) -> Executor:
    return Executor(ToolRegistry(mock_tools(environment, [FunctionTool(bash, name="Bash")], sources=SOURCES)))


def answer(tool: str, **arguments: Any) -> tuple[bool, Any]:
    found = executor().execute_blocking(tool, arguments)
    return found.success, found.result if found.success else found.error


def test_a_mock_answers_the_calls_that_fit_and_lets_others_through() -> None:
    assert answer("Bash", command="git push origin") == (False, "rejected: no network")
    assert answer("Bash", command="date +%F") == (True, "Thu")
    assert answer("Bash", command="ls") == (True, "really ran ls")


def test_a_tool_that_exists_nowhere_else_answers_all_calls() -> None:
    assert answer("weather", city="Rome") == (True, "sunny")
    assert next(tool for tool in mock_tools(HERE) if tool.name == "weather").description == "Tells the weather."


@sandboxed
def test_a_function_of_the_suite_gets_the_arguments_and_gives_the_result() -> None:
    assert answer("mcp__crm__find", name="ann") == (True, {"name": "ANN"})


def test_arguments_of_a_mock_are_checked_by_its_schema() -> None:
    is_success, error = answer("mcp__crm__find", nane="ann")
    assert not is_success
    assert "name" in error


def test_a_function_whose_file_is_not_in_the_suite_is_an_error() -> None:
    (tool,) = mock_tools(Environment(mocks=(Mock(tool="x", function="evals/gone.py:f"),)))
    assert (
        Executor(ToolRegistry([tool])).execute_blocking("x", {}).error
        == "The suite has no file evals/gone.py for the mock."
    )


def test_rules_decide_about_mocks_as_they_do_about_tools() -> None:
    restricted = skill("restricted", allowed_tools="Read")
    with (
        subject_of(library(restricted).get("restricted"), Suite()) as subject,
        subject.session(subject.workspace()) as session,
    ):
        found = session.executor(mock_tools(HERE)).execute_blocking("weather", {})
    assert found.code == "tool-not-allowed"


def converse(command: list[str], *messages: Any) -> list[dict[str, Any]]:
    """The answers of a server to messages, each a line."""
    lines = [one if isinstance(one, str) else json.dumps(one) for one in messages]
    done = subprocess.run(
        command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True, timeout=60
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def message(number: int, method: str, **parameters: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return mock_servers(HERE, tmp_path_factory.mktemp("servers"), sources=SOURCES)


@sandboxed
def test_a_client_program_starts_the_servers_of_a_case_and_calls_their_tools(commands: dict[str, list[str]]) -> None:
    assert list(commands) == ["crm", "mail"]
    greeting, tools, found, count, bad = converse(
        commands["crm"],
        message(1, "initialize", protocolVersion="2025-03-26", capabilities={}),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        message(2, "tools/list"),
        message(3, "tools/call", name="find", arguments={"name": "ann"}),
        message(4, "tools/call", name="count", arguments={}),
        message(5, "tools/call", name="find", arguments={}),
    )
    assert greeting["result"]["protocolVersion"] == "2025-03-26"
    assert tools["result"]["tools"][0] == {"name": "find", "description": "Finds people.", "inputSchema": SCHEMA}
    assert found["result"] == {"content": [{"type": "text", "text": '{"name": "ANN"}'}], "isError": False}
    assert count["result"]["content"][0]["text"] == "2"
    assert bad["result"]["isError"] is True


def test_a_server_answers_what_it_does_not_know_with_an_error(commands: dict[str, list[str]]) -> None:
    found = converse(
        commands["mail"],
        "no json",
        "[" * 10_000,
        message(1, "resources/list"),
        message(2, "tools/call", name="gone"),
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": []},
        message(4, "ping"),
    )
    assert [one.get("error", {}).get("code") for one in found] == [-32700, -32700, -32601, -32602, -32602, None]


def test_the_file_of_a_server_has_the_functions_that_it_needs_and_no_others(commands: dict[str, list[str]]) -> None:
    assert json.loads(Path(commands["crm"][-1]).read_text())["sources"] == {"evals/mocks.py": PYTHON.decode()}
    assert json.loads(Path(commands["mail"][-1]).read_text())["sources"] == {}
