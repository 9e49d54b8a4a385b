"""The same things done through any dialect leave the same trail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from metier import Session
from metier.guard import MemoryLog, Policy
from metier.tools import FunctionTool

Asking = Callable[..., tuple[str, dict[str, Any]]]
DIALECTS = ["registry", "tool", "runtime", "sandbox"]

# Event, decision, skill, rule, code, success, by; a tool's own name where it is the same in every dialect.
TRAIL = [
    ("load", "allow", "narrow", "default", "", True, "model", ""),
    ("call", "allow", "", "control tool", "", True, "model", "*"),
    ("load", "allow", "nowhere", "default", "skill-not-found", False, "model", ""),
    ("call", "allow", "", "control tool", "skill-not-found", False, "model", "*"),
    ("load", "deny", "letters", "policy: blocked", "skill-blocked", False, "model", ""),
    ("call", "allow", "", "control tool", "skill-blocked", False, "model", "*"),
    ("load", "deny", "deploy", "deploy: listing mode manual", "not-for-models", False, "model", ""),
    ("call", "allow", "", "control tool", "not-for-models", False, "model", "*"),
    ("call", "deny", "", "narrow: allowed-tools", "tool-not-allowed", False, "model", "send"),
    ("call", "allow", "", "narrow: allowed-tools lookup", "", True, "model", "lookup"),
    ("call", "allow", "", "narrow: allowed-tools lookup", "invalid-arguments", False, "model", "lookup"),
    ("call", "allow", "", "control tool", "invalid-arguments", False, "model", "*"),
    ("call", "deny", "", "narrow: allowed-tools", "tool-not-found", False, "model", "no_such_tool"),
    ("unload", "allow", "narrow", "default", "", True, "host", ""),
]


def trail(begin: Callable[..., Session], asking: Asking, log: MemoryLog, dialect: Any) -> list[tuple[Any, ...]]:
    """Loads, refusals, calls and mistakes of one task, as they were recorded."""
    session = begin(Policy(blocked=["letters"]))

    def lookup(word: str) -> str:
        return word

    def send() -> str:
        raise AssertionError("it must not be called")

    executor = session.executor([FunctionTool(lookup), FunctionTool(send)], dialect=dialect)
    control = {tool.name for tool in session.tools(dialect)}
    with session.task("task-1"):
        for name in ("narrow", "nowhere", "letters", "deploy"):
            executor.execute_blocking(*asking(dialect, name))
        executor.execute_blocking("send")
        executor.execute_blocking("lookup", {"word": "x"})
        executor.execute_blocking("lookup", {"word": 1})
        executor.execute_blocking(asking(dialect, "")[0], {"no": "sense"})
        executor.execute_blocking("no_such_tool")
    assert {record.task for record in log.records} == {"task-1"}
    assert {record.session for record in log.records} == {session.id}
    return [
        (
            record.event,
            record.decision,
            record.skill,
            record.rule,
            record.code,
            record.success,
            record.by,
            "*" if record.tool in control else record.tool,
        )
        for record in log.records
    ]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_leaves_this_trail(
    begin: Callable[..., Session],
    asking: Asking,
    log: MemoryLog,
    skills: Any,
    write_skill: Callable[..., Any],
    dialect: str,
) -> None:
    write_skill(skills / "narrow", more="allowed-tools: lookup\n")
    assert trail(begin, asking, log, dialect) == TRAIL


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_active_is_recorded_with_every_call(
    begin: Callable[..., Session], asking: Asking, log: MemoryLog, dialect: Any
) -> None:
    executor = begin().executor([FunctionTool(lambda: 1, name="lookup")], dialect=dialect)
    for name in ("forms", "letters"):
        executor.execute_blocking(*asking(dialect, name))
    executor.execute_blocking("lookup")
    assert log.records[-1].active == ("forms", "letters")


@pytest.mark.parametrize(
    ("dialect", "tool", "arguments"),
    [
        ("registry", "read_skill_resource", {"skill_id": "forms", "path": "templates/t.yaml"}),
        ("tool", "skill", {"skill_name": "forms", "action": "read", "args": "templates/t.yaml"}),
        ("runtime", "skills_read", {"path": "templates/t.yaml"}),
    ],
)
def test_reading_a_file_is_recorded_alike(
    begin: Callable[..., Session], log: MemoryLog, dialect: Any, tool: str, arguments: dict[str, Any]
) -> None:
    executor = begin(skills=["forms"]).executor(dialect=dialect)
    executor.execute_blocking(tool, arguments)
    record = next(record for record in log.records if record.event == "read")
    found = (record.decision, record.skill, record.path, record.success, record.by)
    assert found == ("allow", "forms", "templates/t.yaml", True, "model")


@pytest.mark.parametrize(
    ("dialect", "tool", "arguments"),
    [
        ("tool", "skill", {"skill_name": "forms", "action": "run", "args": "scripts/fail.py -v"}),
        ("runtime", "skills_run", {"script": "scripts/fail.py", "args": ["-v"]}),
    ],
)
def test_running_a_script_is_recorded_alike(
    begin: Callable[..., Session], log: MemoryLog, dialect: Any, tool: str, arguments: dict[str, Any]
) -> None:
    executor = begin(skills=["forms"]).executor(dialect=dialect)
    executor.execute_blocking(tool, arguments)
    record = next(record for record in log.records if record.event == "run")
    found = (record.skill, record.command, record.success, record.exit_code, record.by)
    assert found == ("forms", "scripts/fail.py -v", False, 1, "model")
