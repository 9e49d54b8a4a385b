"""The `runtime` dialect: a session as a model drives it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier import Library, Session
from metier.find import Finder
from metier.guard import Guard, MemoryLog, Policy
from metier.library import SkillIndex
from metier.session import MARKER
from metier.tools import ToolResult

Call = Callable[..., ToolResult]


def names(session: Session) -> list[str]:
    return [one.name for one in session.active]


@pytest.mark.covers("G-26")
@pytest.mark.each(
    ("tool", "arguments", "code"),
    [
        ("skills_load", {}, "invalid-arguments"),
        ("skills_load", {"skills": []}, "invalid-argument"),
        ("skills_load", {"skills": ["forms"], "mode": "merge"}, "invalid-arguments"),
        ("skills_load", {"skills": "forms"}, "invalid-arguments"),
        ("skills_load", {"skills": ["none"]}, "skill-not-found"),
        ("skills_load", {"skills": ["forms", "none"]}, "skill-not-found"),
        ("skills_unload", {}, "invalid-argument"),
        ("skills_unload", {"skills": []}, "invalid-argument"),
        ("skills_unload", {"all": False}, "invalid-argument"),
        ("skills_unload", {"skills": ["none"]}, "skill-not-found"),
        ("skills_read", {}, "invalid-arguments"),
        ("skills_read", {"path": "x.md"}, "skill-not-active"),
        ("skills_read", {"path": "x.md", "skill": "forms"}, "skill-not-active"),
        ("skills_read", {"path": "x.md", "skill": "none"}, "skill-not-found"),
        ("skills_run", {}, "invalid-arguments"),
        ("skills_run", {"script": "scripts/echo.py"}, "skill-not-active"),
        ("skills_run", {"script": "scripts/echo.py", "skill": "forms"}, "skill-not-active"),
        ("skills_run", {"script": "scripts/echo.py", "skill": "none"}, "skill-not-found"),
    ],
)
def test_a_call_that_cannot_work_says_why(
    call: Call, session: Session, tool: str, arguments: dict[str, Any], code: str
) -> None:
    result = call(tool, **arguments)
    assert (result.success, result.code) == (False, code)
    assert result.error
    assert result.hint
    assert session.active == ()


@pytest.mark.covers("G-26")
@pytest.mark.parametrize(
    ("calls", "active"),
    [
        ([{"skills": ["forms", "forms"]}], ["forms"]),
        ([{"skills": ["forms", "letters"]}], ["forms", "letters"]),
        ([{"skills": ["forms"]}, {"skills": ["letters"]}], ["letters"]),
        ([{"skills": ["forms"]}, {"skills": ["letters"], "mode": "replace"}], ["letters"]),
        ([{"skills": ["forms"]}, {"skills": ["letters"], "mode": "add"}], ["forms", "letters"]),
        ([{"skills": ["forms", "letters"]}, {"skills": ["forms"], "mode": "add"}], ["letters", "forms"]),
    ],
)
def test_loading_replaces_or_adds_in_order(
    call: Call, session: Session, calls: list[dict[str, Any]], active: list[str]
) -> None:
    for arguments in calls:
        result = call("skills_load", **arguments)
    assert result.success
    assert names(session) == active
    assert result.result.endswith(f"Active skills, the last one loaded last: {', '.join(active)}.")
    assert [item["name"] for item in result.data["receipt"]["active"]] == active


@pytest.mark.covers("G-26")
@pytest.mark.parametrize(
    ("arguments", "active"),
    [({"skills": ["forms"]}, ["letters"]), ({"all": True}, []), ({"skills": ["forms", "letters"]}, [])],
)
def test_unloading_takes_some_or_all(
    call: Call, session: Session, arguments: dict[str, Any], active: list[str]
) -> None:
    call("skills_load", skills=["forms", "letters"])
    assert call("skills_unload", **arguments).success
    assert names(session) == active


@pytest.mark.covers("G-43")
def test_unloading_a_skill_that_is_not_loaded_does_no_harm(call: Call, session: Session) -> None:
    call("skills_load", skills=["forms"])
    assert call("skills_unload", skills=["letters"]).success
    assert names(session) == ["forms"]


@pytest.mark.covers("G-26")
def test_everything_of_a_closed_session_is_gone(call: Call, session: Session) -> None:
    call("skills_load", skills=["forms"])
    session.close()
    calls: dict[str, dict[str, Any]] = {
        "skills_load": {"skills": ["forms"]},
        "skills_unload": {"all": True},
        "skills_read": {"path": "templates/t.yaml"},
        "skills_run": {"script": "scripts/echo.py"},
        "skills_search": {"query": "forms"},
    }
    for tool, arguments in calls.items():
        assert call(tool, **arguments).code == "session-not-found"


@pytest.mark.covers("G-26")
def test_a_skill_that_is_gone_from_its_place_is_not_read(tmp_path: Path, write_skill: Callable[..., Path]) -> None:
    write_skill(tmp_path / "here")
    library = Library.from_folder(tmp_path, cache=False)
    executor = library.session(guard=Guard(audit=MemoryLog())).executor()
    executor.execute_blocking("skills_load", {"skills": ["here"]})
    (tmp_path / "here" / "SKILL.md").unlink()
    library.refresh()
    result = executor.execute_blocking("skills_read", {"path": "notes.md", "skill": "here"})
    assert result.code == "skill-not-found"


@pytest.mark.covers("G-38")
def test_without_a_skill_the_one_loaded_last_is_meant(call: Call) -> None:
    call("skills_load", skills=["letters", "forms"])
    assert "a: 1" in call("skills_read", path="templates/t.yaml").result
    assert call("skills_run", script="scripts/echo.py").success
    call("skills_load", skills=["letters"], mode="add")
    assert call("skills_read", path="templates/t.yaml").code == "file-missing"


@pytest.mark.covers("G-38")
@pytest.mark.parametrize(
    ("tool", "arguments"), [("skills_read", {"path": "a.md"}), ("skills_run", {"script": "scripts/echo.py"})]
)
def test_with_nothing_loaded_one_is_told_to_load_first(call: Call, tool: str, arguments: dict[str, Any]) -> None:
    result = call(tool, **arguments)
    assert result.code == "skill-not-active"
    assert result.hint == "Get one first with skills_load."


@pytest.mark.covers("G-41")
def test_the_text_says_that_the_last_loaded_skill_counts(session: Session) -> None:
    assert "the one that was loaded last counts" in session.instructions()
    assert "the one that was loaded last counts" in session.tools("tool")[0].description
    for dialect, tool in (("registry", "read_skill"), ("sandbox", "get_skill")):
        descriptions = {tool.name: tool.description for tool in session.tools(dialect)}  # type: ignore[arg-type]
        assert "contradict each other" in descriptions[tool]


@pytest.mark.covers("G-42")
def test_too_many_skills_are_refused_and_nothing_changes(begin: Callable[..., Session]) -> None:
    session = begin(max_active=1)
    executor = session.executor()
    executor.execute_blocking("skills_load", {"skills": ["forms"]})
    result = executor.execute_blocking("skills_load", {"skills": ["letters"], "mode": "add"})
    assert not result.success
    assert result.hint == "Get fewer, or end some first with skills_unload."
    assert names(session) == ["forms"]


def test_a_load_gives_the_instructions_of_every_skill_in_order(call: Call) -> None:
    text = call("skills_load", skills=["letters", "forms"]).result
    assert text.startswith(MARKER)
    assert text.count(MARKER) == 2
    assert text.index("Write.") < text.index("Fill:")


@pytest.mark.covers("G-26")
@pytest.mark.each(
    ("arguments", "lines"),
    [
        ({}, ["a: 1", "b: 2", "c: 3", "d: 4", ""]),
        ({"start": 2, "end": 3}, ["b: 2"]),
        ({"start": 3}, ["c: 3", "d: 4"]),
        ({"end": 2}, ["a: 1"]),
        ({"encoding": "text", "start": 4, "end": 99}, ["d: 4"]),
    ],
)
def test_a_file_is_read_as_text_by_lines(call: Call, arguments: dict[str, Any], lines: list[str]) -> None:
    call("skills_load", skills=["forms"])
    result = call("skills_read", path="templates/t.yaml", **arguments)
    head, *shown, end = result.result.split("\n")
    assert head == '<skill_resource skill="forms" path="templates/t.yaml">'
    assert [line for line in shown if line] == [line for line in lines if line]
    assert end == "</skill_resource>"


def test_what_is_no_text_comes_as_base64_and_says_so(call: Call) -> None:
    call("skills_load", skills=["forms"])
    result = call("skills_read", path="assets/logo.bin")
    assert base64.b64encode(b"\0\1\2").decode() in result.result
    assert result.result.endswith("[base64 of 3 bytes]")


def test_a_file_that_is_cut_says_so(call: Call, skills: Path) -> None:
    (skills / "forms" / "long.txt").write_text("line\n" * 100_000)
    call("skills_load", skills=["forms"])
    result = call("skills_read", path="long.txt")
    assert result.truncated
    assert "[truncated: the file has 500,000 bytes; ask for lines with start and end]" in result.result


def test_a_file_of_a_skill_that_changed_says_so(call: Call, skills: Path) -> None:
    call("skills_load", skills=["forms"])
    (skills / "forms" / "templates" / "t.yaml").write_text("changed: 1\n")
    assert (
        "have changed since it was loaded; this is what was loaded]"
        in call("skills_read", path="templates/t.yaml").result
    )


@pytest.mark.covers("G-26")
def test_arguments_variables_and_folder_reach_the_script(call: Call, session: Session) -> None:
    Path(session.context.workspace, "inner").mkdir(parents=True)
    call("skills_load", skills=["forms"])
    result = call(
        "skills_run", script="scripts/echo.py", args=["a b", "$HOME", "*"], env=["INPUT_GIVEN=x=y"], folder="inner"
    )
    assert result.result["stdout"] == "arguments: a b $HOME *\nvariable: x=y\nfolder: inner\n"
    assert result.data["exit_code"] == 0


@pytest.mark.each(
    ("arguments", "code"),
    [
        ({"script": "scripts/fail.py"}, "exit-code"),
        ({"script": "scripts/none.py"}, "file-missing"),
        ({"script": "templates/t.yaml"}, "file-refused"),
        ({"script": "../letters/x.py"}, "file-refused"),
        ({"script": "scripts/echo.py", "env": ["GIVEN"]}, "invalid-argument"),
        ({"script": "scripts/echo.py", "env": ["=x"]}, "invalid-argument"),
        ({"script": "scripts/echo.py", "folder": "../.."}, "invalid-argument"),
        ({"script": "scripts/echo.py", "folder": "none"}, "file-missing"),
        ({"script": "scripts/echo.py", "seconds": 601}, "invalid-argument"),
        ({"script": "scripts/echo.py", "seconds": 0}, "invalid-arguments"),
        ({"script": "scripts/echo.py", "args": ["\0"]}, "invalid-argument"),
        ({"script": "scripts/echo.py", "args": ["x"] * 300}, "invalid-argument"),
    ],
)
def test_a_run_that_fails_says_why(call: Call, arguments: dict[str, Any], code: str) -> None:
    call("skills_load", skills=["forms"])
    result = call("skills_run", **arguments)
    assert (result.success, result.code) == (False, code)
    assert result.error
    assert result.hint


def test_a_script_that_fails_still_tells_what_it_wrote(call: Call) -> None:
    call("skills_load", skills=["forms"])
    result = call("skills_run", script="scripts/fail.py")
    assert (result.result["exit_code"], result.result["stderr"]) == (1, "no such form\n")


def test_without_isolation_a_script_is_refused(begin: Callable[..., Session]) -> None:
    executor = begin(Policy()).executor()
    executor.execute_blocking("skills_load", {"skills": ["forms"]})
    result = executor.execute_blocking("skills_run", {"script": "scripts/echo.py"})
    assert (result.success, result.code) == (False, "isolation-missing")


def test_a_search_gives_the_skills_that_fit(call: Call) -> None:
    found = call("skills_search", query="write letters").result
    assert found["skills"][0] == {"name": "letters", "description": "Writes letters."}
    assert len(call("skills_search", query="forms letters", k=1).result["skills"]) == 1


def test_a_search_finds_nothing_that_a_model_may_not_load(call: Call) -> None:
    assert call("skills_search", query="deploy").result == {"skills": [], "total": 0}


@pytest.mark.covers("G-31")
def test_before_anything_is_loaded_the_text_has_the_available_skills_only(session: Session) -> None:
    text = session.instructions()
    assert text.count("\n<available_skills>\n") == 1
    assert "\n<active_skills>\n" not in text


@pytest.mark.covers("G-31")
def test_active_skills_are_not_repeated_among_the_available_ones(begin: Callable[..., Session]) -> None:
    session = begin(delivery="instructions")
    session.load("forms")
    text = session.instructions()
    assert "<name>forms</name>" not in text
    assert "<name>letters</name>" in text
    assert '<skill_content name="forms"' in text
    assert text.index("</available_skills>") < text.index("\n<active_skills>\n")


@pytest.mark.covers("G-31")
def test_a_session_may_know_of_some_skills_only(begin: Callable[..., Session]) -> None:
    session = begin(names=["letters"])
    assert "<name>forms</name>" not in session.instructions()
    assert session.executor().execute_blocking("skills_load", {"skills": ["forms"]}).code == "skill-not-found"
    assert begin(names=[]).instructions() == ""


@pytest.mark.covers("G-31")
def test_the_same_text_is_not_made_twice(begin: Callable[..., Session], monkeypatch: pytest.MonkeyPatch) -> None:
    session = begin(delivery="instructions")
    session.load("forms")
    first = session.instructions()

    def fail(*_: Any, **__: Any) -> Any:
        raise AssertionError("read again")

    monkeypatch.setattr(SkillIndex, "document", fail)
    monkeypatch.setattr(Finder, "catalog", fail)
    assert session.instructions() == first


def test_without_skills_there_are_no_tools_and_no_text() -> None:
    session = Library.from_files().session()
    assert session.tools() == []
    assert session.instructions() == ""
