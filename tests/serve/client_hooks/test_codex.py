"""Codex: its inputs, as the program sends them, and the answers that it obeys."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier.cli import main
from metier.serve.client_hooks.commands import CommandReading
from metier.serve.client_hooks.event import Output
from metier.serve.client_hooks.gate import HookGate

Write = Callable[..., Path]
Tell = Callable[..., Output]


@pytest.fixture
def tell(project: Path) -> Tell:
    """Tells the gate of an event, with the fields that Codex 0.169 has in each."""
    gate = HookGate()

    def told(event: str, **fields: Any) -> Output:
        common = {"session_id": "01a1", "transcript_path": None, "cwd": str(project), "model": "gpt-5.5"}
        data = {**common, "hook_event_name": event, "permission_mode": "bypassPermissions", "turn_id": "t1", **fields}
        return gate.answer("codex", json.dumps(data).encode())

    return told


def shell(command: str) -> dict[str, Any]:
    return {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": "call_1"}


def test_codex_is_refused_by_the_exit_code_and_a_reason_as_it_runs_what_other_answers_refuse(
    tell: Tell, project: Path, write_skill: Write
) -> None:
    write_skill(project / ".agents/skills/release", more="allowed-tools: Bash(git:*)\n")
    assert main(["trust", str(project)]) == 0
    assert tell("PreToolUse", **shell("cat .agents/skills/release/SKILL.md")) == Output()
    assert tell("PostToolUse", **shell("cat .agents/skills/release/SKILL.md"), tool_response="...") == Output()
    assert tell("PreToolUse", **shell("git status")) == Output()
    refused = tell("PreToolUse", **shell("touch a"))
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "touch a" in refused.stderr
    patch = {"command": "*** Begin Patch\n*** Add File: a.txt\n+a\n*** End Patch\n"}
    patched = tell("PreToolUse", tool_name="apply_patch", tool_input=patch, tool_use_id="call_2")
    assert patched.exit_code == 2
    assert main(["quarantine", "add", "release", "--reason", "hostile"]) == 0
    assert "release" in tell("PreToolUse", **shell("git status")).stderr
    assert tell("UserPromptSubmit", prompt="Use $release now").exit_code == 2


def test_a_question_is_a_refusal_that_tells_the_user_of_it(tell: Tell, own_home: Path) -> None:
    policy = own_home / ".metier/policy.yaml"
    policy.parent.mkdir(parents=True, exist_ok=True)
    policy.write_text("version: 1\ntools: {ask: ['Bash(make:*)']}\n")
    asked = tell("PreToolUse", **shell("make all"))
    assert (asked.exit_code, asked.stdout) == (2, "")
    assert "so tell the user" in asked.stderr
    assert str(policy) in asked.stderr


def test_a_script_runs_in_the_sandbox_by_the_word_that_codex_takes_other_arguments_by(
    tell: Tell, project: Path, own_home: Path, write_skill: Write
) -> None:
    write_skill(own_home / ".agents/skills/release")
    script = own_home / ".agents/skills/release/scripts/tag.py"
    script.parent.mkdir()
    script.write_text("print(1)\n")
    policy = own_home / ".metier/policy.yaml"
    policy.parent.mkdir(parents=True, exist_ok=True)
    policy.write_text("version: 1\nprotect: {scripts: sandbox}\n")
    answer = json.loads(tell("PreToolUse", **shell(f"python3 {script} v1")).stdout)["hookSpecificOutput"]
    assert set(answer) == {"hookEventName", "permissionDecision", "updatedInput"}, "one too many, and the call runs"
    assert answer["permissionDecision"] == "allow"
    assert "run release scripts/tag.py -- v1" in answer["updatedInput"]["command"]


@pytest.mark.parametrize(
    ("command", "waits"),
    [
        ("bash", True),
        ("cd src && python3 -i", True),
        ("env python3 -q", True),
        ("python3 -i x.py", True),
        ("python3 x.py", False),
        ("bash -c 'ls'", False),
        ("python3 - <<'E'\nprint(1)\nE", False),
        ("echo ls | bash", False),
        ("node --version", False),
        ("ls", False),
    ],
)
def test_a_program_that_waits_for_typing_is_known(command: str, waits: bool) -> None:
    assert CommandReading(command, "/").is_interactive is waits


def test_a_model_does_not_end_the_rules_of_a_skill_by_a_message_to_a_subagent(
    tell: Tell, own_home: Path, write_skill: Write
) -> None:
    write_skill(own_home / ".agents/skills/release", more="allowed-tools: Bash(git:*)\n")
    policy = own_home / ".metier/policy.yaml"
    policy.parent.mkdir(parents=True, exist_ok=True)
    policy.write_text("version: 1\nprotect: {skills: prompt}\n")
    assert tell("UserPromptSubmit", prompt="Use $release now").exit_code == 0
    assert tell("UserPromptSubmit", prompt="Go on.", agent_id="01a2", agent_type="default").exit_code == 0
    assert tell("UserPromptSubmit", prompt="<task-notification>\n<status>completed</status>").exit_code == 0
    assert tell("PreToolUse", **shell("touch a"), agent_id="01a2", agent_type="default").exit_code == 2
    assert tell("UserPromptSubmit", prompt="Now something else.").exit_code == 0
    assert tell("PreToolUse", **shell("touch a")).exit_code == 0


def test_a_patch_in_a_command_is_held_to_the_rules_for_files_and_for_commands(tell: Tell, own_home: Path) -> None:
    policy = own_home / ".metier/policy.yaml"
    policy.parent.mkdir(parents=True, exist_ok=True)
    policy.write_text("version: 1\ntools: {deny: ['Write(secret/**)']}\n")
    patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch\nEOF\n"
    assert tell("PreToolUse", **shell(patch.format("notes.txt"))) == Output()
    assert "secret/x" in tell("PreToolUse", **shell(patch.format("secret/x"))).stderr
    policy.write_text("version: 1\ntools: {deny: [Bash]}\n")
    assert tell("PreToolUse", **shell(patch.format("notes.txt"))).exit_code == 2
