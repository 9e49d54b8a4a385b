"""The `tool` dialect: one `skill` tool whose description is the catalog."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier import Library, Session
from metier.dialect import SkillTool, ToolDialect
from metier.errors import SkillUnreadable
from metier.guard import Guard, MemoryLog, Policy
from metier.library import SkillIndex
from metier.tools import FunctionTool, ToolResult

Call = Callable[..., ToolResult]


def library_of(*names: str, more: str = "") -> Library:
    return Library.from_files(
        *({"SKILL.md": f"---\nname: {name}\ndescription: Does {name}.\n{more}---\nDo.\n"} for name in names)
    )


def tool_of(library: Library, **options: Any) -> SkillTool:
    (tool,) = library.session(guard=Guard(audit=MemoryLog())).tools(ToolDialect(**options))
    return tool


@pytest.mark.covers("O-45")
def test_the_tool_is_called_skill_and_needs_only_a_name() -> None:
    tool = tool_of(library_of("a"))
    assert tool.name == "skill"
    assert tool.parameters["required"] == ["skill_name"]
    assert {"skill_name", "args"} <= set(tool.parameters["properties"])


@pytest.mark.covers("O-45")
def test_a_call_may_take_30_seconds_unless_another_time_is_given() -> None:
    assert tool_of(library_of("a")).timeout == 30.0
    assert tool_of(library_of("a"), timeout=2.5).timeout == 2.5


def test_a_call_that_takes_longer_is_ended(begin: Callable[..., Session], skills: Path) -> None:
    (skills / "letters" / "SKILL.md").write_text("---\nname: letters\ndescription: W.\ncontext: fork\n---\nWrite.\n")

    async def never(*_: Any) -> str:
        await anyio.sleep_forever()
        raise AssertionError

    executor = begin().executor(dialect=ToolDialect(timeout=0.01), spawn=never)
    assert executor.execute_blocking("skill", {"skill_name": "letters"}).code == "timed-out"


@pytest.mark.covers("O-46")
def test_without_skills_the_description_says_so_and_explains_the_rest() -> None:
    description = tool_of(Library.from_files()).description
    assert "No skills currently available" in description
    assert "## What a skill costs" in description
    assert "## Paths" in description


@pytest.mark.covers("O-46")
def test_the_description_lists_each_skill_and_how_to_use_one() -> None:
    description = tool_of(library_of("a", "b")).description
    assert "## Available skills" in description
    assert "## Usage" in description
    assert "`a`: Does a." in description
    assert "`b`: Does b." in description
    assert "No skills" not in description


@pytest.mark.covers("O-46")
def test_a_skill_that_is_added_is_in_the_description_of_the_same_tool(
    tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    write_skill(tmp_path / "first")
    library = Library.from_folder(tmp_path, cache=False)
    tool = tool_of(library)
    assert "`second`" not in tool.description
    write_skill(tmp_path / "second")
    library.refresh()
    assert "`second`" in tool.description


@pytest.mark.covers("O-47")
def test_loading_gives_name_base_path_and_content(call: Call, session: Session) -> None:
    result = call("skill", skill_name="forms")
    assert set(result.result) == {"skill_name", "base_path", "content"}
    assert result.result["skill_name"] == "forms"
    assert result.result["base_path"] == session.loaded.one().root
    assert "Fill:" in result.result["content"]
    assert result.duration_ms >= 0
    assert result.keep


@pytest.mark.covers("O-47")
def test_arguments_are_in_the_result_when_there_are_any(call: Call) -> None:
    result = call("skill", skill_name="forms", args="W-4 now")
    assert result.result["args"] == "W-4 now"
    assert "Fill: W-4 now" in result.result["content"]


@pytest.mark.covers("O-47")
@pytest.mark.each(
    ("line", "expected"),
    [
        ("allowed-tools: Read, Bash(git:*)\n", {"allowed_tools": ["Read", "Bash(git:*)"]}),
        ("allowed-tools: []\n", {"allowed_tools": []}),
        ("", {}),
    ],
)
def test_allowed_tools_are_in_the_result_when_they_are_declared(line: str, expected: dict[str, Any]) -> None:
    session = library_of("a", more=line).session(guard=Guard(audit=MemoryLog()))
    result = session.executor(dialect="tool").execute_blocking("skill", {"skill_name": "a"}).result
    assert {key: value for key, value in result.items() if key == "allowed_tools"} == expected


@pytest.mark.covers("O-48")
@pytest.mark.each("arguments", [{}, {"skill_name": ""}, {"skill_name": "  \n"}, {"args": "x"}])
def test_a_name_is_required(call: Call, arguments: dict[str, Any]) -> None:
    result = call("skill", **arguments)
    assert not result.success
    assert "skill_name" in (result.error or "")
    assert "required" in f"{result.error} {result.hint}" or "missing" in f"{result.error}"


@pytest.mark.covers("O-48", "O-49")
@pytest.mark.each(
    ("asked", "meant"),
    [("debag-agent", "debug-agent"), ("debug-agen", "debug-agent"), ("test-runer", "test-runner")],
)
def test_a_name_that_is_nearly_one_is_not_found_with_a_suggestion(asked: str, meant: str) -> None:
    session = library_of("debug-agent", "test-runner", "review").session(guard=Guard(audit=MemoryLog()))
    result = session.executor(dialect="tool").execute_blocking("skill", {"skill_name": asked})
    assert result.code == "skill-not-found"
    assert "not found" in (result.error or "")
    assert meant in f"{result.error} {result.hint}"


@pytest.mark.covers("O-49")
def test_a_name_in_another_case_is_found() -> None:
    session = library_of("debug-agent").session(guard=Guard(audit=MemoryLog()))
    result = session.executor(dialect="tool").execute_blocking("skill", {"skill_name": "DEBUG-AGENT"})
    assert result.result["skill_name"] == "debug-agent"


@pytest.mark.covers("O-49")
def test_a_name_like_no_other_gets_no_suggestion() -> None:
    session = library_of("debug-agent").session(guard=Guard(audit=MemoryLog()))
    result = session.executor(dialect="tool").execute_blocking("skill", {"skill_name": "completely-different"})
    assert "Did you mean" not in f"{result.error} {result.hint}"


@pytest.mark.covers("O-50")
def test_a_skill_that_cannot_be_read_fails_with_the_reason(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise SkillUnreadable("The disk is gone.", hint="Mount it.")

    monkeypatch.setattr(SkillIndex, "document", broken)
    result = call("skill", skill_name="forms")
    assert (result.success, result.code, result.hint) == (False, "skill-unreadable", "Mount it.")
    assert "Failed to load skill 'forms'" in (result.error or "")
    assert "The disk is gone." in (result.error or "")


@pytest.mark.covers("O-50")
def test_a_skill_whose_file_is_gone_fails_and_nothing_is_active(call: Call, session: Session, skills: Path) -> None:
    (skills / "forms" / "SKILL.md").unlink()
    result = call("skill", skill_name="forms")
    assert not result.success
    assert result.code
    assert result.hint
    assert session.active == ()


def test_a_refusal_is_said_as_it_was_decided(begin: Callable[..., Session]) -> None:
    executor = begin(Policy(blocked=["forms"])).executor(dialect="tool")
    result = executor.execute_blocking("skill", {"skill_name": "forms"})
    assert (result.code, result.error) == ("skill-blocked", "Skill 'forms' is blocked.")


@pytest.mark.covers("O-51")
def test_from_files_to_a_restriction_and_out_of_it(tmp_path: Path, write_skill: Callable[..., Path]) -> None:
    write_skill(tmp_path / "reader", more="allowed-tools: lookup\n")
    write_skill(tmp_path / "writer", more="allowed-tools: send\n")
    session = Library.from_folder(tmp_path, cache=False).session(guard=Guard(audit=MemoryLog()))
    host = [FunctionTool(lambda: "found", name="lookup"), FunctionTool(lambda: "sent", name="send")]
    executor = session.executor(host, dialect="tool")
    tool = executor.registry.get("skill")
    assert tool is not None
    assert "`reader`" in tool.description

    def allowed() -> list[bool]:
        return [executor.execute_blocking(name).success for name in ("lookup", "send")]

    assert allowed() == [True, True]
    for name, expected in (("reader", [True, False]), ("writer", [False, True])):
        assert executor.execute_blocking("skill", {"skill_name": name}).success
        assert allowed() == expected
        assert executor.execute_blocking("skill", {"skill_name": name, "action": "unload"}).result["unloaded"]
        assert allowed() == [True, True]


@pytest.mark.covers("O-51")
def test_activating_and_checking_cost_little(begin: Callable[..., Session]) -> None:
    session, count = begin(), 20
    executor = session.executor([FunctionTool(lambda: 1, name="lookup")], dialect="tool")

    async def main() -> tuple[float, float]:
        started = time.process_time()
        for _ in range(count):
            await executor.execute("skill", {"skill_name": "forms"})
            await executor.execute("skill", {"skill_name": "forms", "action": "unload"})
        loaded = time.process_time()
        for _ in range(count):
            session.may_call("lookup", {})
        return (loaded - started) / count, (time.process_time() - loaded) / count

    activation, check = anyio.run(main)
    # Processor time and not the clock's, so that whatever else the machine does is not counted.
    assert activation < 0.050
    assert check < 0.005


@pytest.mark.covers("O-106")
@pytest.mark.each("dialect", ["registry", "tool", "runtime", "sandbox"])
def test_a_skill_for_people_is_neither_shown_to_a_model_nor_loaded_by_it(
    begin: Callable[..., Session], asking: Callable[..., tuple[str, dict[str, Any]]], dialect: Any
) -> None:
    session = begin()
    executor = session.executor(dialect=dialect)
    shown = "\n".join([session.instructions(dialect=dialect), *(tool.description for tool in executor.registry)])
    assert "deploy" not in shown
    result = executor.execute_blocking(*asking(dialect, "deploy"))
    assert (result.success, result.code) == (False, "not-for-models")
    assert session.active == ()


@pytest.mark.covers("O-106")
def test_a_skill_for_people_is_loaded_when_a_person_asks(session: Session) -> None:
    invocation = session.invoke("/deploy staging")
    assert invocation is not None
    assert "Deploy." in invocation.text
    assert [one.name for one in session.active] == ["deploy"]


@pytest.mark.covers("O-106")
def test_a_skill_for_models_is_loaded_by_a_model_and_by_no_person() -> None:
    session = library_of("inner", more="user-invocable: false\n").session(guard=Guard(audit=MemoryLog()))
    with pytest.raises(Exception, match="for models"):
        session.invoke("/inner")
    assert session.executor(dialect="tool").execute_blocking("skill", {"skill_name": "inner"}).success


def test_a_file_is_read_and_a_script_is_run_by_action(call: Call) -> None:
    call("skill", skill_name="forms")
    read = call("skill", skill_name="forms", action="read", args="templates/t.yaml")
    assert read.result["content"].startswith("a: 1")
    ran = call("skill", skill_name="forms", action="run", args="scripts/echo.py 'two words' three")
    assert ran.result["stdout"].startswith("arguments: two words three")
    assert ran.result["exit_code"] == 0


@pytest.mark.each(
    ("action", "args", "code"),
    [
        ("read", "", "file-refused"),
        ("read", "none.md", "file-missing"),
        ("read", "scripts/echo.py", "script-read"),
        ("run", "", "invalid-argument"),
        ("run", "'open", "invalid-argument"),
        ("run", "SKILL.md", "file-refused"),
        ("run", "scripts/none.py", "file-missing"),
        ("run", "scripts/fail.py", "exit-code"),
        ("dance", "", "invalid-arguments"),
    ],
)
def test_an_action_that_cannot_be_done_says_why(call: Call, action: str, args: str, code: str) -> None:
    call("skill", skill_name="forms")
    result = call("skill", skill_name="forms", action=action, args=args)
    assert (result.success, result.code) == (False, code)
    assert result.error
    assert result.hint


def test_a_script_is_read_by_the_hint_with_the_tool_that_runs_it(call: Call) -> None:
    call("skill", skill_name="forms")
    result = call("skill", skill_name="forms", action="read", args="scripts/echo.py")
    assert "skill action=run" in (result.hint or "")


@pytest.mark.covers("G-43")
def test_unloading_what_is_not_loaded_does_no_harm(call: Call) -> None:
    result = call("skill", skill_name="forms", action="unload")
    assert (result.success, result.result["unloaded"]) == (True, False)


# --- the stack of activations ---------------------------------------------------------------------------------------


@pytest.fixture
def skill() -> Callable[..., ToolResult]:
    """Calls the tool in a session with three skills that restrict nothing, or what is said."""
    session = library_of("a", "b", "c").session(guard=Guard(audit=MemoryLog()))
    executor = session.executor(dialect="tool")

    def skill(name: str, action: str, **more: Any) -> ToolResult:
        return executor.execute_blocking("skill", {"skill_name": name, "action": action, **more})

    skill.session = session  # type: ignore[attr-defined]
    return skill


def active(skill: Any) -> list[str]:
    return [one.name for one in skill.session.active]


@pytest.mark.covers("ACC-8", "O-38")
def test_skills_are_activated_and_deactivated_in_reverse_order(skill: Any) -> None:
    first = skill("a", "activate", args="x")
    assert (first.result["status"], first.result["skill_name"]) == ("activated", "a")
    assert first.result["content"]
    assert skill("b", "activate").success
    assert (active(skill), skill.session.parts.loader.activations) == (["a", "b"], ("a", "b"))
    assert skill("b", "deactivate").result == {"skill_name": "b", "status": "deactivated"}
    assert skill("a", "deactivate").result == {"skill_name": "a", "status": "deactivated"}
    assert (active(skill), skill.session.parts.loader.activations) == ([], ())


@pytest.mark.covers("ACC-8", "O-38")
@pytest.mark.parametrize("before", ["activate", "load"])
def test_a_skill_that_is_active_is_not_activated_again(skill: Any, before: str) -> None:
    assert skill("a", before).success
    result = skill("a", "activate")
    assert (result.success, result.code) == (False, "activation-failed")
    assert "already active" in (result.error or "")
    assert result.hint
    assert active(skill) == ["a"]
    assert skill("a", "deactivate").success
    assert active(skill) == []


@pytest.mark.covers("ACC-8", "O-38")
@pytest.mark.parametrize("how", ["activate", "load"])
def test_only_the_top_of_the_stack_is_deactivated(skill: Any, how: str) -> None:
    skill("a", how)
    skill("b", how)
    result = skill("a", "deactivate")
    assert (result.success, result.code) == (False, "activation-failed")
    assert "not at top of stack" in (result.error or "")
    assert "b" in (result.hint or "")
    assert active(skill) == ["a", "b"]


@pytest.mark.covers("ACC-8", "O-38")
def test_what_is_not_active_is_not_deactivated(skill: Any) -> None:
    skill("a", "activate")
    for name, code in (("b", "activation-failed"), ("none", "skill-not-found")):
        result = skill(name, "deactivate")
        assert (result.success, result.code) == (False, code)
    assert active(skill) == ["a"]


@pytest.mark.covers("ACC-8")
def test_a_skill_that_was_unloaded_can_be_activated_again(skill: Any) -> None:
    skill("a", "activate")
    skill("b", "activate")
    assert skill("a", "unload").success
    assert skill.session.parts.loader.activations == ("b",)
    assert skill("a", "activate").success
    assert skill("b", "load").success
    for name in ("a", "b"):
        assert skill(name, "deactivate").success
    assert active(skill) == []


@pytest.mark.covers("ACC-8", "O-103")
def test_a_sixth_activation_inside_others_is_too_deep() -> None:
    session = library_of(*"abcdef").session(guard=Guard(audit=MemoryLog()))
    executor = session.executor(dialect="tool")
    results = [executor.execute_blocking("skill", {"skill_name": name, "action": "activate"}) for name in "abcdef"]
    assert [one.success for one in results] == [True] * 5 + [False]
    assert "a -> b -> c -> d -> e -> f" in (results[-1].error or "")


@pytest.mark.covers("ACC-8")
def test_what_an_agent_is_made_of_is_not_deactivated() -> None:
    session = library_of("a").session(guard=Guard(audit=MemoryLog()), bound=["a"])
    executor = session.executor(dialect="tool")
    result = executor.execute_blocking("skill", {"skill_name": "a", "action": "deactivate"})
    assert (result.success, result.code) == (False, "activation-failed")
    assert [one.name for one in session.active] == ["a"]


@pytest.mark.covers("ACC-8", "O-39")
def test_what_an_activated_skill_restricts_ends_with_it() -> None:
    library = Library.from_files(
        {"SKILL.md": "---\nname: strict\ndescription: S.\nallowed-tools: other\n---\nDo."},
        {"SKILL.md": "---\nname: free\ndescription: F.\n---\nDo."},
    )
    session = library.session(guard=Guard(audit=MemoryLog()))
    executor = session.executor([FunctionTool(lambda: "found", name="lookup")], dialect="tool")
    for name in ("strict", "free"):
        assert executor.execute_blocking("skill", {"skill_name": name, "action": "activate"}).success
    assert not executor.execute_blocking("lookup").success
    assert not executor.execute_blocking("skill", {"skill_name": "strict", "action": "deactivate"}).success
    assert not executor.execute_blocking("lookup").success
    for name in ("free", "strict"):
        assert executor.execute_blocking("skill", {"skill_name": name, "action": "deactivate"}).success
    assert executor.execute_blocking("lookup").success


@pytest.mark.covers("ACC-8")
def test_what_a_skill_requires_comes_with_its_activation() -> None:
    library = Library.from_files(
        {"SKILL.md": "---\nname: base\ndescription: B.\n---\nBasics."},
        {"SKILL.md": "---\nname: top\ndescription: T.\nrequires: [base]\n---\nMore."},
    )
    session = library.session(guard=Guard(audit=MemoryLog()), dependencies="load")
    result = session.executor(dialect="tool").execute_blocking("skill", {"skill_name": "top", "action": "activate"})
    assert result.result["skill_name"] == "top"
    assert "Basics." in result.result["content"]
    assert "More." in result.result["content"]
