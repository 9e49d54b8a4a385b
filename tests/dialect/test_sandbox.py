"""The `sandbox` dialect: `get_skill`, and a shell for everything else."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from metier import Library, Session
from metier.dialect import as_text
from metier.guard import Policy
from metier.tools import ToolResult

Call = Callable[..., ToolResult]


def description(session: Session) -> str:
    return next(tool.description for tool in session.tools("sandbox") if tool.name == "get_skill")


@pytest.mark.covers("S-07", "S2-02")
def test_without_skills_the_description_says_so() -> None:
    assert "No skills are currently available." in description(Library.from_files().session())


@pytest.mark.covers("S-07", "S2-02", "ACC-2")
def test_the_description_lists_skills_with_their_locations(session: Session, shell: None) -> None:
    text = description(session)
    block = ElementTree.fromstring(text[text.index("<available_skills>") :])
    assert [{child.tag: child.text for child in skill} for skill in block] == [
        {"name": "forms", "description": "Fills forms.", "location": "/.sandbox/skills/forms"},
        {"name": "letters", "description": "Writes letters.", "location": "/.sandbox/skills/letters"},
    ]


@pytest.fixture
def shell() -> None:
    """Skips a test of the virtual shell where it is not installed."""
    pytest.importorskip("bashkit", reason="the extra `shell` is not installed")


@pytest.fixture
def no_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which the virtual shell is not installed."""
    monkeypatch.setitem(sys.modules, "bashkit", None)


@pytest.mark.covers("S-07")
@pytest.mark.parametrize("name", ["forms", "FORMS", " Forms "])
def test_a_skill_is_got_as_json_in_any_case(call: Call, shell: None, name: str) -> None:
    result = call("get_skill", skill_name=name, args="W-4")
    found = json.loads(as_text(result))
    assert set(found) == {"name", "description", "mountPath", "instructions"}
    assert (found["name"], found["description"]) == ("forms", "Fills forms.")
    assert found["mountPath"] == "/.sandbox/skills/forms"
    assert "Fill: W-4" in found["instructions"]
    assert result.keep


@pytest.mark.covers("S-07")
@pytest.mark.each("name", ["none", "", "..", "/"])
def test_an_unknown_skill_is_an_error(call: Call, session: Session, name: str) -> None:
    result = call("get_skill", skill_name=name)
    assert (result.success, result.code) == (False, "skill-not-found" if name else "invalid-argument")
    assert result.error
    assert session.active == ()


@pytest.mark.covers("S2-04")
def test_a_command_answers_with_success_message_and_output(call: Call) -> None:
    result = call("sandbox_execute", command="echo out; echo err >&2")
    assert result.success
    assert result.result["success"] is True
    assert result.result["message"] == "The command ended with exit code 0."
    assert sorted(result.result["output"].split()) == ["err", "out"]


@pytest.mark.covers("S2-04")
def test_a_command_that_fails_answers_in_the_same_shape(call: Call) -> None:
    result = call("sandbox_execute", command="echo before; exit 3")
    assert (result.success, result.code) == (False, "exit-code")
    assert result.result == {
        "success": False,
        "message": "The command ended with exit code 3.",
        "output": "before\n",
        "error": "The command ended with exit code 3.",
        "exit_code": 3,
    }
    assert result.data["exit_code"] == 3


@pytest.mark.covers("S2-04", "ACC-8")
def test_an_answer_has_the_error_of_a_command_that_failed_apart_from_its_output(call: Call) -> None:
    failed = call("sandbox_execute", command="echo before; cat /missing").result
    assert (failed["output"], "No such file" in failed["error"]) == ("before\n", True)
    assert call("sandbox_execute", command="echo out; echo note >&2").result["error"] is None


@pytest.mark.covers("S2-04")
def test_a_command_that_takes_too_long_is_ended(call: Call) -> None:
    result = call("sandbox_execute", command="sleep 600", seconds=1)
    assert (result.code, result.result["exit_code"]) == ("timed-out", 124)
    assert result.result["message"] == "The command timed out."


@pytest.mark.covers("S2-04")
@pytest.mark.each("command", ["", " \n", "echo \0", "x" * 100_000])
def test_a_command_that_is_none_is_refused(call: Call, command: str) -> None:
    result = call("sandbox_execute", command=command)
    assert (result.success, result.code) == (False, "invalid-argument")


def test_long_output_is_cut_and_says_so(call: Call) -> None:
    result = call("sandbox_execute", command="head -c 2000000 /dev/zero | tr '\\0' x")
    assert result.truncated
    assert result.result["output"].endswith("[Output truncated]")


def test_the_shell_sees_the_files_of_a_skill(call: Call) -> None:
    mounted = call("get_skill", skill_name="forms").result["mountPath"]
    assert "b: 2" in call("sandbox_execute", command=f"cat '{mounted}/templates/t.yaml'").result["output"]


@pytest.mark.covers("S-01", "S-02")
def test_instructions_name_the_place_where_the_shell_has_the_files(
    begin: Callable[..., Session], shell: None, skills: Path, write_skill: Callable[..., Path]
) -> None:
    write_skill(skills / "placed", body="Run ${CLAUDE_SKILL_DIR}/scripts/hello.sh.")
    (skills / "placed" / "scripts").mkdir()
    (skills / "placed" / "scripts" / "hello.sh").write_text("echo Hello from skill\n")
    executor = begin().executor(dialect="sandbox")
    text = as_text(executor.execute_blocking("get_skill", {"skill_name": "placed"}))
    assert "Run /.sandbox/skills/placed/scripts/hello.sh." in text
    assert str(skills) not in text, "there is no such folder in the shell"

    def said(command: str) -> str:
        return str(executor.execute_blocking("sandbox_execute", {"command": command}).result["output"])

    assert said("cat /.sandbox/skills/placed/SKILL.md").startswith("---\nname: placed\n")
    assert said("ls /.sandbox/skills/placed") == "SKILL.md\nscripts\n"
    assert said("sh /.sandbox/skills/placed/scripts/hello.sh") == "Hello from skill\n"


def test_the_shell_goes_on_from_one_call_to_the_next(begin: Callable[..., Session], shell: None) -> None:
    executor = begin(Policy()).executor(dialect="sandbox")
    assert executor.execute_blocking("sandbox_execute", {"command": "cd /tmp; x=kept; echo file > f"}).success
    result = executor.execute_blocking("sandbox_execute", {"command": "echo $x; cat f"})
    assert (result.result["output"], result.data["runner"]) == ("kept\nfile\n", "virtual")


def test_without_the_extra_bash_runs_where_a_copy_of_the_skill_is(
    begin: Callable[..., Session], no_shell: None, skills: Path
) -> None:
    session = begin()
    executor = session.executor(dialect="sandbox")
    found = executor.execute_blocking("get_skill", {"skill_name": "forms"}).result
    mounted = found["mountPath"]
    assert mounted != str(skills / "forms")
    assert f'root="{mounted}"' in found["instructions"]
    (skills / "forms" / "templates" / "t.yaml").write_text("changed")
    result = executor.execute_blocking("sandbox_execute", {"command": f"cat '{mounted}/templates/t.yaml'; pwd"})
    assert result.result["output"] == f"a: 1\nb: 2\nc: 3\nd: 4\n{session.context.workspace}\n"
    assert result.data["runner"] == "plain"


def test_without_isolation_nothing_is_run(begin: Callable[..., Session], no_shell: None) -> None:
    result = begin(Policy()).executor(dialect="sandbox").execute_blocking("sandbox_execute", {"command": "echo hello"})
    assert (result.success, result.code, result.result) == (False, "isolation-missing", None)


def test_a_policy_can_deny_the_tool_by_its_name(begin: Callable[..., Session]) -> None:
    executor = begin(Policy(unsandboxed="allow", deny="sandbox_execute")).executor(dialect="sandbox")
    assert executor.execute_blocking("sandbox_execute", {"command": "echo hello"}).code == "tool-not-allowed"


def shell_rules(begin: Callable[..., Session], skills: Path, write_skill: Callable[..., Path]) -> list[Any]:
    """What becomes of two commands where policy denies one to Bash, and of two under a skill that allows Bash one."""
    write_skill(skills / "narrow", more="allowed-tools: Bash(echo:*)\n")
    by_policy = begin(Policy(unsandboxed="allow", deny="Bash(date:*)")).executor(dialect="sandbox")
    by_skill = begin(skills=["narrow"]).executor(dialect="sandbox")
    return [
        executor.execute_blocking("sandbox_execute", {"command": command}).success
        for executor in (by_policy, by_skill)
        for command in ("echo hello", "date")
    ]


def test_what_is_said_of_bash_counts_for_the_shell(
    begin: Callable[..., Session], skills: Path, write_skill: Callable[..., Path]
) -> None:
    assert shell_rules(begin, skills, write_skill) == [True, False, True, False]


def test_with_delivery_by_instructions_the_text_has_the_active_skills(begin: Callable[..., Session]) -> None:
    session = begin(delivery="instructions")
    assert session.instructions(dialect="sandbox") == ""
    session.executor(dialect="sandbox").execute_blocking("get_skill", {"skill_name": "forms"})
    assert "Fill:" in session.instructions(dialect="sandbox")
