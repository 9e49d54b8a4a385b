"""Commands by which people decide about skills, called by an agent."""

from __future__ import annotations

import time
from typing import Any

import pytest

from metier import Guard
from metier.guard import Action, Decision, MemoryLog


def decided(guard: Guard, tool: str, **arguments: Any) -> Decision:
    return guard.decide(Action(point="call", tool=tool, arguments=arguments))


@pytest.fixture
def guard() -> Guard:
    return Guard(audit=MemoryLog())


@pytest.mark.each(
    "command",
    [
        "metier approve grant r-1",
        "'met'ier approve grant r-1",
        'me"t"ier approve grant r-1',
        "me\\tier approve grant r-1",
        "metie\\\nr approve grant r-1",
        "metier 'appr'ove grant r-1",
        "m=met; ${m}ier approve grant r-1",
        "$(printf metie)r approve grant r-1",
        "/usr/bin/metie? approve grant r-1",
        "$M propose approve p-1",
        "python3 -m metier rollback law",
        "uvx metier approve revoke a-1",
        "env metier propose reject p-1",
        "echo metier approve grant r-1 | sh",
        "metier release peek --reason x",
        "metier user add x --role admin",
        "metier token new root",
        "metier trust .",
        "metier deploy law",
        "metier store restore /tmp/f --force",
        "metier --skills x approve grant r-1",
        "metier --no-cache --skills=x release pdf",
        "python3 -m metier --skills x user add x --role admin",
        "metier --skills x scan . --keep",
        "metier scan --keep skills",
        "metier sync --to out --accept-findings fine",
        "metier --skills x sync --acc=fine --to out",
        "metier scan skills --keep",
        "metier scan skills --fail-on high --kee",
        "cd skills && metier 'scan' . --'keep'",
        "python -m metier scan --keep=x .",
        ["metier", "approve", "grant", "r-1"],
    ],
)
def test_no_shell_of_an_agent_decides_about_skills(guard: Guard, command: Any) -> None:
    found = decided(guard, "Bash", command=command)
    assert (found.outcome, found.code) == ("deny", "tool-not-allowed")
    assert "Deciding about skills is for people." in found.reason


@pytest.mark.each(
    ("tool", "arguments"),
    [
        ("shell", {"cmd": "metier approve grant r-1"}),
        ("mcp__shell__run", {"command": "metier approve grant r-1"}),
        ("mcp__shell__run", {"command": ["met'ier'", "approve", "grant"]}),
        ("execute_code", {"code": "import os; os.system('metier approve grant r-1')"}),
        ("execute_code", {"code": "subprocess.run(['metier', 'token', 'new'])"}),
        ("execute_code", {"code": "subprocess.run(['metier', '--skills', 'x', '--no-cache', 'trust', '.'])"}),
        ("execute_code", {"code": "subprocess.run(['metier', 'scan', 'skills', '--keep'])"}),
        ("runner", {"script": "set -e\nmetier \\\n  deploy law"}),
    ],
)
def test_nor_does_a_tool_that_runs_things_under_another_name(
    guard: Guard, tool: str, arguments: dict[str, Any]
) -> None:
    # What was decided about its tool before does not matter.
    assert decided(guard, tool).is_allowed
    assert decided(guard, tool, **dict.fromkeys(arguments, "ls")).is_allowed
    found = decided(guard, tool, **arguments)
    assert (found.outcome, found.code) == ("deny", "tool-not-allowed")


@pytest.mark.each(
    ("tool", "arguments"),
    [
        ("Bash", {"command": "metier approve list && metier list"}),
        ("Bash", {"command": "metier quarantine peek --reason x"}),
        ("Bash", {"command": "metier scan skills --json && metier --skills x list --all"}),
        ("execute_code", {"code": "subprocess.run(['metier', '--skills', 'x', 'scan', 'skills'])"}),
        ("Bash", {"command": "git commit -m 'metier approve grant is for people'"}),
        ("Bash", {"command": "for f in *; do $TOOL release $f; done"}),
        ("Bash", {"command": "$DOCKER user add x"}),
        ("Write", {"file_path": "x.md", "content": "`metier approve grant r-1`"}),
        ("execute_code", {"code": "import metier\nprint(metier.__version__)"}),
        ("tell_user", {"text": "Please run metier approve grant r-1."}),
    ],
)
def test_whatever_else_there_is_to_say_or_to_run_is_not_touched(
    guard: Guard, tool: str, arguments: dict[str, Any]
) -> None:
    assert decided(guard, tool, **arguments).is_allowed


@pytest.mark.each(
    "text", ["metier -a b " * 5_000, "metier" + " -" * 30_000, "metier scan " * 5_000, "metier" + "," * 60_000]
)
def test_no_text_takes_long_to_look_through(guard: Guard, text: str) -> None:
    before = time.process_time()
    decided(guard, "execute_code", code=text)
    assert time.process_time() - before < 2
