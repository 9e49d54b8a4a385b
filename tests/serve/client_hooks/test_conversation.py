"""A conversation in a client: its skills are seen, its calls decided, and each leaves one record."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.serve.client_hooks.conftest import ClaudeCode

from metier.cli import main

Write = Callable[..., Path]


@pytest.fixture
def release(project: Path, own_home: Path, write_skill: Write) -> Path:
    """A skill of the user's in the folder of Claude Code."""
    return write_skill(
        own_home / ".claude/skills/release",
        description="Releases.",
        body="Tag it.",
        more="allowed-tools: Bash(git:*)\n",
    )


def records(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["audit", "export"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [one for one in found if one["event"] == "call"]


def test_the_rules_of_a_skill_hold_from_the_call_that_loads_it(
    claude: ClaudeCode, release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert claude.bash("touch a") == {}
    assert claude.calls("Skill", skill="release") == {}
    assert claude.bash("git status") == {}
    refused = claude.bash("touch b")
    assert refused["permissionDecision"] == "deny"
    assert "touch b" in refused["permissionDecisionReason"]
    assert main(["quarantine", "add", "release", "--reason", "hostile"]) == 0
    stopped = claude.bash("git status")
    assert stopped["permissionDecision"] == "deny"
    assert "release" in stopped["permissionDecisionReason"]
    found = records(capsys)
    assert [one["decision"] for one in found] == ["allow", "allow", "allow", "deny", "deny"]
    assert all(one["skills"][0].startswith("release@") and "#" in one["skills"][0] for one in found[1:])
