"""Attacks that once worked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tables import crossed, thinned

from metier import FunctionTool, Guard, Library, Policy, Session
from metier.dialect import DialectName, as_text
from metier.errors import SkillNotFound
from metier.guard import MemoryLog

Write = Callable[..., Path]
ANY = {"type": "object"}
RUNS: dict[str, Any] = {"unsandboxed": "allow", "injection": "allow"}


def skill(name: str, more: str = "", body: str = "Do.") -> dict[str, str]:
    return {"SKILL.md": f"---\nname: {name}\ndescription: Does {name}.\n{more}---\n{body}"}


def injected(folder: Path, write_skill: Write, tools: str, body: str, **policy: Any) -> str:
    """The body of a skill with commands in it, under a policy that lets them run."""
    write_skill(folder / "s" / "a", more=tools, body=body)
    guard = Guard(Policy(**{**RUNS, **policy}), audit=MemoryLog())
    session = Library.from_folder(folder / "s", cache=False).session(guard=guard, workspace=folder)
    session.load("a")
    return session.loaded.one().body


@pytest.mark.covers("O-62", "O-63", "O-64")
@pytest.mark.parametrize(
    ("tools", "policy"),
    [
        ("allowed-tools: Bash(echo:*)\n", {"deny": "Bash"}),
        ("allowed-tools: Bash(echo:*)\n", {"deny": "Bash(echo:*)"}),
        ("allowed-tools: Bash(echo:*)\n", {"allow": "Read"}),
        ("allowed-tools: Bash(echo:*)\n", {"ask": "Bash"}),
        ("allowed-tools: Bash(echo:*)\ndisallowed-tools: Bash(echo:*)\n", {}),
    ],
)
def test_a_command_in_instructions_is_decided_like_a_call_of_bash(
    tmp_path: Path, write_skill: Write, tools: str, policy: dict[str, str]
) -> None:
    assert injected(tmp_path, write_skill, "allowed-tools: Bash(echo:*)\n", "!`echo RAN`").startswith("RAN")
    body = injected(tmp_path, write_skill, tools, "!`echo RAN`", **policy)
    assert body.startswith("[Command blocked by security policy: ")


@pytest.mark.covers("O-62")
def test_what_a_shell_would_read_as_a_comment_is_not_hidden_from_the_rules(tmp_path: Path, write_skill: Write) -> None:
    body = "!`find . -maxdepth 0 -not -name # -exec touch PWNED {} +`"
    assert "blocked by security policy" in injected(tmp_path, write_skill, "allowed-tools: Bash(find:*)\n", body)
    assert not (tmp_path / "PWNED").exists()


def test_another_active_skill_restricts_injected_commands_too(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "s" / "strict", more="allowed-tools: Read\n")
    write_skill(tmp_path / "s" / "a", more="allowed-tools: Bash(echo:*)\n", body="!`echo RAN`")
    guard = Guard(Policy(**RUNS), audit=MemoryLog())
    session = Library.from_folder(tmp_path / "s", cache=False).session(guard=guard, workspace=tmp_path)
    session.load("strict")
    session.load("a", "add")
    assert session.loaded.one("a").body.startswith("[Command blocked by security policy: ")


def test_a_blocked_command_is_recorded_as_denied_and_told(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "s" / "a", more="allowed-tools: Bash(echo:*)\n", body="!`curl example.com`")
    log, events = MemoryLog(), []
    session = Library.from_folder(tmp_path / "s", cache=False).session(
        guard=Guard(Policy(**RUNS), audit=log),
        workspace=tmp_path,
    )
    session.listen(lambda event: events.append((event.kind, event.code)))
    session.load("a")
    (record,) = [one for one in log.records if one.event == "inject"]
    assert (record.decision, record.code, record.success) == ("deny", "command-blocked", False)
    assert "not among what is allowed" in record.reason
    assert ("refused", "command-blocked") in events


def test_a_cancelled_hook_after_a_call_does_not_cost_the_record(tmp_path: Path, write_skill: Write) -> None:
    hooks = "hooks:\n  PostToolUse:\n    - hooks:\n        - command: sleep 1\n"
    write_skill(tmp_path / "s" / "a", more=hooks)
    log = MemoryLog()
    guard = Guard(Policy(hooks="allow", unsandboxed="allow"), audit=log)
    session = Library.from_folder(tmp_path / "s", cache=False).session(guard=guard, skills=["a"], workspace=tmp_path)
    ran = asyncio.Event()

    async def act() -> None:
        ran.set()

    executor = session.executor([FunctionTool(act, name="act", parameters=ANY)])

    async def main() -> None:
        task = asyncio.create_task(executor.execute("act", {}))
        await ran.wait()
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    assert [one.tool for one in log.records if one.event == "call"] == ["act"]


def test_a_secret_in_a_command_is_in_no_part_of_its_record() -> None:
    log = MemoryLog()
    library = Library.from_files(skill("a", "allowed-tools: Read\n"))
    session = library.session(skills=["a"], guard=Guard(audit=log))
    executor = session.executor([FunctionTool(str, name="Bash", parameters=ANY)])
    executor.execute_blocking("Bash", {"command": 'curl -H "Authorization: Bearer abcdefgh12345678" x'})
    assert "abcdefgh12345678" not in json.dumps(log.records[-1].as_dict())


@thinned("matcher", ["^Write$", "(Write|Edit)", "Wr.te", "[W]rite", "W(?:rite)"], one_in=2)
def test_a_matcher_that_is_not_understood_does_not_let_a_call_pass(
    tmp_path: Path, write_skill: Write, matcher: str
) -> None:
    hooks = f"hooks:\n  PreToolUse:\n    - matcher: '{matcher}'\n      hooks:\n        - command: 'false'\n"
    write_skill(tmp_path / "s" / "a", more=hooks)
    guard = Guard(Policy(hooks="allow", unsandboxed="allow"), audit=MemoryLog())
    session = Library.from_folder(tmp_path / "s", cache=False).session(guard=guard, skills=["a"], workspace=tmp_path)
    executor = session.executor([FunctionTool(str, name="Write", parameters=ANY)])
    assert executor.execute_blocking("Write", {}).code == "hook-refused"


@pytest.fixture
def secretive() -> Session:
    library = Library.from_files(
        skill("alpha"),
        skill("beta"),
        skill("secret-plan"),
        skill("hush"),
        skill("hid", "disable-model-invocation: true\n"),
    )
    guard = Guard(Policy(blocked=["hush"]), audit=MemoryLog())
    return library.session(guard=guard, names=["alpha", "beta", "hush", "hid"])


LOADS: dict[DialectName, Callable[[str], tuple[str, dict[str, Any]]]] = {
    "runtime": lambda name: ("skills_load", {"skills": [name]}),
    "registry": lambda name: ("read_skill", {"skill_id": name}),
    "tool": lambda name: ("skill", {"skill_name": name}),
    "sandbox": lambda name: ("get_skill", {"skill_name": name}),
}


@pytest.mark.covers("O-100")
@crossed(
    ("dialect", LOADS),
    ("asked", ["secret-plam", "secret-plan", "secret-plan@x", "secret-plan@memory", "hus", "hi"]),
    one_in=4,
)
def test_no_message_names_a_skill_that_the_session_must_not_know_of(
    secretive: Session, dialect: DialectName, asked: str
) -> None:
    result = secretive.executor(dialect=dialect).execute_blocking(*LOADS[dialect](asked))
    assert not result.success
    told = as_text(result).replace(f"'{asked}'", "").replace("alpha, beta, hid, hush", "")
    assert not {"secret-plan", "hush", "hid"} & set(told.replace("'", " ").replace(".", " ").split())


def test_a_mistyped_name_is_still_guessed_among_those_that_may_be_known(secretive: Session) -> None:
    with pytest.raises(SkillNotFound, match="Did you mean 'alpha'"):
        secretive.load("alpa")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Bash", {"command": "cat /proc/1/root/etc/passwd link/etc/passwd"}),
        ("Bash", {"command": "ls", "cwd": "link"}),
        ("Read", {"file_path": "/proc/1/root/etc/passwd"}),
        ("Read", {"file_path": "link/etc/passwd"}),
        ("Grep", {"pattern": "root", "path": "link"}),
        ("Write", {"file_path": "link/x", "content": "x"}),
    ],
)
def test_a_path_through_another_process_is_an_ordinary_refusal(
    tmp_path: Path, write_skill: Write, tool: str, arguments: dict[str, str]
) -> None:
    write_skill(tmp_path / "s" / "a")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to("/proc/1/root")
    guard = Guard(Policy(unsandboxed="allow"), audit=MemoryLog())
    session = Library.from_folder(tmp_path / "s", cache=False).session(
        guard=guard, workspace=tmp_path / "work", skills=["a"]
    )
    result = session.executor(builtin=[tool]).execute_blocking(tool, arguments)
    assert result.code in (None, "file-refused", "command-failed")


def test_a_command_that_policy_gives_less_time_is_told_how_long_it_had(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "s" / "a")
    guard = Guard(Policy(unsandboxed="allow", limits={"seconds": 0.2}), audit=MemoryLog())
    session = Library.from_folder(tmp_path / "s", cache=False).session(guard=guard, workspace=tmp_path)
    result = session.executor(builtin=["Bash"]).execute_blocking("Bash", {"command": "sleep 30"})
    assert result.code == "timed-out"
    assert "after 30 seconds" not in (result.error or "")
