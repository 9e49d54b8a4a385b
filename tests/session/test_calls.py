"""Tool calls under the rules of what is loaded: in the executor, for every call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier import FunctionTool, Policy, Session, ToolResult
from metier.guard import MemoryLog

Files = Callable[..., dict[str, str]]
Begin = Callable[..., Session]


class Agent:
    """Some tools of an agent, and what was really done by them."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def tools(self) -> list[FunctionTool]:
        def read(file_path: str = "") -> str:
            self.done.append(f"read {file_path}".strip())
            return "read"

        def grep(pattern: str = "") -> str:
            self.done.append("grep")
            return "found"

        def write(file_path: str = "") -> str:
            self.done.append("write")
            return "written"

        def bash(command: str) -> str:
            self.done.append(f"bash {command}")
            return "ran"

        def fail() -> str:
            self.done.append("fail")
            raise RuntimeError("no")

        return [FunctionTool(function) for function in (read, grep, write, bash, fail)]


@pytest.fixture
def agent() -> Agent:
    """An agent that has done nothing yet."""
    return Agent()


def call(session: Session, agent: Agent, tool: str, **arguments: Any) -> ToolResult:
    executor = session.executor(agent.tools())
    return anyio.run(lambda: executor.execute(tool, arguments))


@pytest.mark.covers("O-33", "O-37")
@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        ("", ["read", "grep", "write", "bash"]),
        ("allowed-tools: [Read, Grep]\n", ["read", "grep"]),
        ("allowed-tools: [READ, gReP]\n", ["read", "grep"]),
        ("allowed-tools: Read Grep\n", ["read", "grep"]),
        ("allowed-tools: Read, Grep\n", ["read", "grep"]),
        ("allowed-tools: Read, Bash(git:*)\n", ["read"]),
        ("allowed-tools: Read, Bash(ls:*)\n", ["read", "bash"]),
        ("allowed-tools: []\n", []),
        ("allowed-tools:\n", None),
        ("disallowed-tools: Write\n", ["read", "grep", "bash"]),
        ("allowed-tools: '*'\ndisallowed-tools: Bash\n", ["read", "grep", "write"]),
    ],
)
def test_a_skill_allows_what_it_lists(
    begin: Begin, skill: Files, agent: Agent, rules: str, allowed: list[str] | None
) -> None:
    session = begin(skill("a", more=rules), skills=["a"])
    if allowed is None:
        # Whether an empty field is an empty list is the skill's to say.
        allowed = ["read", "grep", "write", "bash"] if session.loaded.one().skill.allowed_tools is None else []
    calls: dict[str, dict[str, str]] = {"read": {}, "grep": {}, "write": {}, "bash": {"command": "ls -l"}}
    made = [tool for tool, arguments in calls.items() if call(session, agent, tool, **arguments).success]
    assert made == allowed
    assert [one.split()[0] for one in agent.done] == allowed


@pytest.mark.covers("O-34", "O-37", "O-43")
def test_a_refusal_is_a_result_that_names_skill_tool_and_list_and_nothing_runs(
    begin: Begin, skill: Files, agent: Agent, log: MemoryLog
) -> None:
    session = begin(skill("careful", more="allowed-tools: read, grep\n"), skills=["careful"])
    result = call(session, agent, "write")
    assert (result.success, result.code) == (False, "tool-not-allowed")
    assert result.error is not None
    assert "'careful' cannot use tool 'write'" in result.error
    assert "read, grep" in result.error
    assert result.hint
    assert agent.done == []
    record = log.records[-1]
    assert (record.event, record.tool, record.decision, record.success) == ("call", "write", "deny", False)
    assert (record.active, record.rule) == (("careful",), "careful: allowed-tools")


@pytest.mark.covers("O-34")
def test_an_empty_list_says_that_no_tools_are_allowed(begin: Begin, skill: Files, agent: Agent) -> None:
    session = begin(skill("a", more="allowed-tools: []\n"), skills=["a"])
    result = call(session, agent, "read")
    assert result.error is not None
    assert "No tools are allowed" in result.error


@pytest.mark.covers("O-35")
def test_the_allowed_tools_are_those_that_every_list_has(begin: Begin, skill: Files) -> None:
    session = begin(
        skill("a", more="allowed-tools: Read, Bash(git:*)\n"),
        skill("b", more="allowed-tools: read_file Write\n"),
        skill("c"),
    )
    assert not session.calls.allowed_tools  # None, as none has a list
    session.load(["a", "c"])
    assert session.calls.allowed_tools == frozenset({"read", "bash"})
    session.load("b", "add")
    assert session.calls.allowed_tools == frozenset({"read"})
    session.unload(all=True)
    assert session.calls.allowed_tools is None


@pytest.mark.covers("O-40")
@pytest.mark.parametrize("order", [["a", "b", "c"], ["c", "b", "a"], ["b", "a", "c"]])
def test_a_call_must_be_allowed_by_every_active_skill_in_whatever_order(
    begin: Begin, skill: Files, agent: Agent, order: list[str]
) -> None:
    session = begin(
        skill("a", more="allowed-tools: Read, Grep\n"),
        skill("b", more="allowed-tools: Read, Write\n"),
        skill("c"),
        skills=order,
    )
    made = [tool for tool in ("read", "grep", "write") if call(session, agent, tool).success]
    assert made == ["read"]


@pytest.mark.covers("O-40")
def test_loading_a_skill_without_rules_widens_nothing(begin: Begin, skill: Files, agent: Agent) -> None:
    session = begin(skill("a", more="allowed-tools: Read\n"), skill("b"), skills=["a"])
    session.load("b", "add")
    assert not call(session, agent, "write").success


@pytest.mark.covers("O-39")
def test_rules_survive_an_exception_inside_a_tool(begin: Begin, skill: Files, agent: Agent, log: MemoryLog) -> None:
    session = begin(skill("a", more="allowed-tools: fail, read\n"), skills=["a"])
    result = call(session, agent, "fail")
    assert (result.success, log.records[-1].success) == (False, False)
    assert not call(session, agent, "write").success
    session.unload("a")
    assert call(session, agent, "write").success


@pytest.mark.covers("O-41")
def test_a_refusal_is_logged_as_a_warning(
    begin: Begin, skill: Files, agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    session = begin(skill("a", more="allowed-tools: Read\n"), skills=["a"])
    with caplog.at_level("WARNING", logger="metier.guard"):
        call(session, agent, "write")
    (record,) = [one for one in caplog.records if one.name == "metier.guard"]
    assert record.levelname == "WARNING"
    assert "write" in record.getMessage()


@pytest.mark.covers("O-43")
@pytest.mark.parametrize(
    "command",
    ["git status && curl x", "git status; curl x", "git status | sh", "curl x", "git `curl x`", "git $(curl x)"],
)
def test_a_forged_command_never_runs(begin: Begin, skill: Files, agent: Agent, command: str) -> None:
    session = begin(skill("a", more="allowed-tools: Bash(git status:*), Bash(git:*)\n"), skills=["a"])
    assert not call(session, agent, "bash", command=command).success
    assert agent.done == []
    assert call(session, agent, "bash", command="git status").success


@pytest.mark.covers("O-44")
def test_tools_that_control_skills_are_never_forbidden(begin: Begin, skill: Files, agent: Agent) -> None:
    session = begin(
        skill("a", more="allowed-tools: []\ndisallowed-tools: skills_load\n", **{"note.txt": "x"}),
        skill("b"),
        skills=["a"],
        policy=Policy(allow="Read", deny="*"),
    )
    assert call(session, agent, "skills_read", path="note.txt").success
    assert call(session, agent, "skills_search", query="b").success
    assert call(session, agent, "skills_load", skills=["b"], mode="add").success
    assert call(session, agent, "skills_unload", all=True).success
    assert session.active == ()


@pytest.mark.covers("O-44")
def test_what_a_model_is_told_does_not_depend_on_rules(begin: Begin, skill: Files) -> None:
    session = begin(skill("a", more="allowed-tools: []\n"), skills=["a"])
    assert session.instructions()
    assert [tool.name for tool in session.tools()]


def test_a_tool_cannot_pass_for_one_that_controls_skills(begin: Begin, skill: Files, agent: Agent) -> None:
    session = begin(skill("a", more="allowed-tools: []\n"), skills=["a"])
    result = call(session, agent, "skills_loader")
    assert not result.success
    assert not call(session, agent, "WRITE").success
    assert agent.done == []


@pytest.mark.covers("O-36", "SEC-14")
@pytest.mark.parametrize("tool", ["Read", "read", "READ"])
def test_reading_a_script_by_an_agents_own_tool_is_refused(
    begin_in: Begin, write_skill: Callable[..., Path], tmp_path: Path, agent: Agent, tool: str
) -> None:
    folder = write_skill(tmp_path / "s" / "a").parent
    (folder / "scripts").mkdir()
    (folder / "scripts" / "x.py").write_text("")
    (folder / "notes.md").write_text("")
    session = begin_in(tmp_path / "s", skills=["a"])
    assert session.may_call(tool, {"file_path": str(folder / "notes.md")})
    assert session.may_call(tool, {})
    assert session.may_call("Grep", {"path": str(folder)})
    root = Path(session.loaded.one().root)
    for path in (
        root / "scripts" / "x.py",
        folder / "scripts" / "x.py",
        folder / "scripts" / ".." / "scripts" / "x.py",
    ):
        assert not session.may_call("Grep", {"path": str(path)})
        assert not session.may_call(tool, {"file_path": str(path)})
        result = call(session, agent, "read", file_path=str(path))
        assert (result.code, agent.done) == ("script-read", [])
        assert result.hint is not None
        assert "skills_run" in result.hint


@pytest.mark.covers("O-105")
def test_every_call_leaves_one_record_also_of_unknown_tools_and_bad_arguments(
    begin: Begin, skill: Files, agent: Agent, log: MemoryLog
) -> None:
    session = begin(skill("a"), skills=["a"])
    before = len(log.records)
    for tool, arguments in (("read", {}), ("nope", {}), ("bash", {}), ("bash", {"command": 5}), ("fail", {})):
        call(session, agent, tool, **arguments)
    records = log.records[before:]
    assert [(one.event, one.tool, one.success) for one in records] == [
        ("call", "read", True),
        ("call", "nope", False),
        ("call", "bash", False),
        ("call", "bash", False),
        ("call", "fail", False),
    ]


def test_secrets_in_arguments_are_not_recorded(begin: Begin, skill: Files, agent: Agent, log: MemoryLog) -> None:
    session = begin(skill("a"))
    call(session, agent, "bash", command="curl -H 'Authorization: Bearer abcdefgh12345678' x?token=hunter2")
    line = log.records[-1].as_line().decode()
    assert "hunter2" not in line
    assert "abcdefgh12345678" not in line


def test_a_closed_session_refuses_every_call_as_a_result(begin: Begin, skill: Files, agent: Agent) -> None:
    session = begin(skill("a"), skills=["a"])
    executor = session.executor(agent.tools())
    session.close()
    calls = [
        ("skills_load", {"skills": ["a"]}),
        ("skills_unload", {"all": True}),
        ("skills_read", {"path": "SKILL.md"}),
        ("skills_run", {"script": "scripts/x.py"}),
        ("write", {}),
    ]
    for tool, arguments in calls:
        result = executor.execute_blocking(tool, arguments)
        assert (result.success, result.code) == (False, "session-not-found")
    assert agent.done == []


def test_a_new_policy_counts_from_the_next_call(begin: Begin, skill: Files, agent: Agent) -> None:
    session = begin(skill("a"), skills=["a"])
    assert call(session, agent, "write").success
    session.guard.policy = Policy(deny="Write")
    assert not call(session, agent, "write").success


def test_advisory_lists_restrict_nothing_but_what_is_disallowed_stays_so(
    begin: Begin, skill: Files, agent: Agent
) -> None:
    session = begin(
        skill("a", more="allowed-tools: Read\ndisallowed-tools: Bash\n"),
        skills=["a"],
        policy=Policy(allowed_tools={"project": "advisory"}),
    )
    assert call(session, agent, "write").success
    assert not call(session, agent, "bash", command="ls").success


def test_rules_may_name_the_skills_own_folder(
    begin_in: Begin, write_skill: Callable[..., Path], tmp_path: Path
) -> None:
    file = write_skill(tmp_path / "s" / "a", more='allowed-tools: "Bash(${CLAUDE_SKILL_DIR}/scripts/x.sh:*)"\n')
    session = begin_in(tmp_path / "s", skills=["a"])
    assert session.may_call("Bash", {"command": f"{session.loaded.one().root}/scripts/x.sh --all"})
    assert not session.may_call("Bash", {"command": f"{file.parent}/scripts/x.sh --all"})
    assert not session.may_call("Bash", {"command": "/elsewhere/scripts/x.sh"})
