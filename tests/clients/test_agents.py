"""Claude Code and Gemini CLI, configured by `metier mcp --install`, load a skill; and they list what was synced."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.npm_packages import client_command
from tests.wire.server import Recorder, recorded_model

from metier.cli import main

Write = Callable[..., Path]

TASK = "Load the skill called totals."
ANSWER = "The skill is loaded."
SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A client, and how it is run once on a task."""

    program: str
    install: str
    tool: str
    """What it calls our tool for loading."""
    folder: str
    """Where it looks for skills on disk."""
    arguments: tuple[str, ...]
    env: Callable[[str], dict[str, str]]
    """What tells it where the model is."""


AGENTS = {
    "claude": Agent(
        program="claude",
        install="claude-code",
        tool="mcp__metier__skills_load",
        folder=".claude/skills",
        arguments=(
            *("-p", TASK, "--mcp-config", ".mcp.json", "--strict-mcp-config"),
            *("--allowedTools", "mcp__metier__skills_load", "--output-format", "stream-json", "--verbose"),
        ),
        env=lambda url: {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            # Otherwise its first request may be sent before the server is there.
            "MCP_CONNECTION_NONBLOCKING": "0",
        },
    ),
    "gemini": Agent(
        program="gemini",
        install="gemini",
        tool="mcp_metier_skills_load",
        folder=".agents/skills",
        arguments=("-m", "gemini-2.5-pro", "-p", TASK, "--yolo"),
        env=lambda url: {
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_API_KEY": "none",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
    ),
}


def fixtures(agent: Agent) -> list[dict[str, Any]]:
    """What the model says: it calls our tool, and then it is done."""
    call = {"name": agent.tool, "arguments": json.dumps({"skills": ["totals"]})}
    return [
        {"match": {"userMessage": TASK, "hasToolResult": False}, "response": {"toolCalls": [call]}},
        {"match": {"hasToolResult": True}, "response": {"content": ANSWER}},
        {"match": {}, "response": {"content": "Yes."}},
    ]


def ran(agent: Agent, model: Recorder) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        [*client_command(agent.program), *agent.arguments],
        env={**os.environ, "PATH": path, **agent.env(model.url)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_loads_a_skill_and_lists_what_was_synced(
    name: str, tmp_path: Path, own_home: Path, write_skill: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = AGENTS[name]
    write_skill(tmp_path / "served/totals", description="Adds up what was sold.", body="Add up every line.")
    write_skill(tmp_path / "kept/letters", description="Writes letters to customers.")
    (own_home / ".gemini").mkdir()
    (own_home / ".gemini/settings.json").write_text('{"security": {"auth": {"selectedType": "gemini-api-key"}}}')
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    assert main(["--skills", str(tmp_path / "served"), "mcp", "--install", agent.install]) == 0
    assert main(["--skills", str(tmp_path / "kept"), "sync", "--to", agent.folder]) == 0
    (tmp_path / "model").mkdir()
    with recorded_model(fixtures(agent), tmp_path / "model") as model:
        done = ran(agent, model)
        assert done.returncode == 0, done.stderr
        assert ANSWER in done.stdout
        sent = [request.body for request in model.requests if TASK.encode() in request.body]
    assert b"Adds up what was sold." in sent[0], "the instructions of the server have the catalog"
    assert b"Writes letters to customers." in sent[0], "what was synced is listed"
    assert b"Add up every line." not in sent[0]
    assert b"Add up every line." in sent[-1], "the result of loading has the instructions"
