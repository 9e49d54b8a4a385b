"""The MCP Inspector, which others check servers with, drives `metier mcp` over stdio and HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tests.inspector.conftest import Inspected, Server

# tests/serve has the same with clients in this process.
pytestmark = pytest.mark.slow

Inspect = Callable[..., Inspected]


def reports(done: Inspected) -> dict[str, str]:
    return {report["name"]: report["outcome"] for report in map(json.loads, done.out.splitlines())}


def test_skills_keep_the_extension_over_stdio(inspect: Inspect) -> None:
    done = inspect("--method", "skills/list", "--verify", "--require-digests")
    assert (done.code, reports(done)) == (0, {"review": "verified", "totals": "verified"}), done.err
    # Scripts are run and not read, so they are not among what is listed.
    assert "Verified 2 skills and 4 files" in done.err


def test_skills_keep_the_extension_over_http(inspect: Inspect, server: Server) -> None:
    done = inspect("--method", "skills/list", "--verify", "--require-digests", at=server)
    assert (done.code, reports(done)) == (0, {"review": "verified", "totals": "verified"}), done.err


def test_schemas_of_tools_are_portable(inspect: Inspect) -> None:
    done = inspect("--method", "tools/list", "--strict", era="legacy")
    assert done.code == 0, done.err
    names = [tool["name"] for tool in done.json["tools"]]
    assert names == ["skills_load", "skills_unload", "skills_read", "skills_run", "skills_search"]


def test_a_skill_is_loaded_over_stdio(inspect: Inspect) -> None:
    done = inspect(
        *("--method", "tools/call", "--tool-name", "skills_load", "--tool-args-json", '{"skills": ["totals"]}')
    )
    assert done.code == 0, done.err
    assert "The instructions of totals." in done.json["content"][0]["text"]
    assert not done.json.get("isError")


def test_a_file_is_read_as_a_resource(inspect: Inspect, server: Server) -> None:
    done = inspect("--method", "resources/read", "--uri", "skill://totals/references/notes.md", at=server)
    assert done.code == 0, done.err
    assert done.json["contents"][0]["text"] == "Notes on totals.\n"


def test_a_script_runs_and_tells_how_far_it_is(inspect: Inspect, server: Server) -> None:
    arguments = '{"script": "scripts/count.sh", "skill": "totals"}'
    before = len(server.sent)
    done = inspect(
        *("--method", "tools/call", "--tool-name", "skills_run", "--tool-args-json", arguments),
        *("--tool-metadata", "progressToken=here"),
        at=server,
    )
    assert done.code == 0, done.err
    assert json.loads(done.json["content"][0]["text"])["stdout"] == "line 1\nline 2\nline 3\n"
    assert b"notifications/progress" in server.sent[before:]


def test_a_prompt_has_the_instructions_with_arguments(inspect: Inspect, server: Server) -> None:
    done = inspect("--method", "prompts/get", "--prompt-name", "totals", "--prompt-args", "args=sums.txt", at=server)
    assert done.code == 0, done.err
    text = done.json["messages"][0]["content"]["text"]
    assert "The instructions of totals." in text
    assert "sums.txt" in text
