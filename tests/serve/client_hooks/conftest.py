"""A client in a project, whose hooks are asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from metier.serve.client_hooks.event import Output
from metier.serve.client_hooks.gate import HookGate

Write = Callable[..., Path]


@dataclass
class ClaudeCode:
    """Claude Code, as far as its hooks go: what it tells them, and what their answers make of a call."""

    folder: Path
    gate: HookGate = field(default_factory=HookGate)
    conversation: str = "c1"
    _calls: int = 0

    def tells(self, event: str, **fields: Any) -> Output:
        data = {"hook_event_name": event, "session_id": self.conversation, "cwd": str(self.folder), **fields}
        return self.gate.answer("claude-code", json.dumps(data).encode())

    def calls(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer to a call: empty where there is no objection."""
        self._calls += 1
        answer = self.tells("PreToolUse", tool_name=tool, tool_input=arguments, tool_use_id=f"t{self._calls}")
        assert answer.exit_code == 0, answer.stderr
        found = json.loads(answer.stdout).get("hookSpecificOutput", {})
        assert isinstance(found, dict)
        return found

    def bash(self, command: str) -> dict[str, Any]:
        return self.calls("Bash", command=command)

    def result(self, tool: str, **arguments: Any) -> Output:
        return self.tells("PostToolUse", tool_name=tool, tool_input=arguments, tool_use_id=f"t{self._calls}")


@pytest.fixture
def project(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def claude(project: Path) -> ClaudeCode:
    return ClaudeCode(project)
