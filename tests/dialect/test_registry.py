"""The `registry` dialect: listing skills, reading one, reading a file of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier import Library, Session
from metier.guard import Policy
from metier.session import MARKER
from metier.tools import ToolResult

Call = Callable[..., ToolResult]


@pytest.mark.covers("Y-15")
def test_all_skills_are_listed_with_id_and_description(call: Call) -> None:
    assert call("list_skills").result == {
        "skills": [
            {"id": "forms", "description": "Fills forms."},
            {"id": "letters", "description": "Writes letters."},
        ],
        "total": 2,
    }


@pytest.mark.covers("Y-15")
@pytest.mark.each(
    ("query", "ids"),
    [("", ["forms", "letters"]), ("LETT", ["letters"]), ("office", ["forms"]), ("nothing", []), ("deploy", [])],
)
def test_a_list_has_those_whose_name_or_tag_contains_the_query(call: Call, query: str, ids: list[str]) -> None:
    result = call("list_skills", query=query)
    assert result.success
    assert [one["id"] for one in result.result["skills"]] == ids


def test_a_long_list_is_cut_and_says_so() -> None:
    library = Library.from_files(
        *({"SKILL.md": f"---\nname: s-{number}\ndescription: {'x' * 5_000}\n---\nDo.\n"} for number in range(250))
    )
    result = library.session().executor(dialect="registry").execute_blocking("list_skills")
    assert result.truncated
    assert (len(result.result["skills"]), result.result["total"]) == (50, 250)
    assert "200 more" in result.result["hint"]
    assert max(len(one["description"]) for one in result.result["skills"]) < 2_000


@pytest.mark.covers("Y-16")
def test_reading_a_skill_gives_its_instructions_and_what_they_cost(call: Call) -> None:
    result = call("read_skill", skill_id="forms", args="W-4")
    assert result.result["id"] == "forms"
    assert "Fill: W-4" in result.result["content"]
    assert result.result["content"].startswith(MARKER)
    assert result.result["approximate_tokens"] > 0
    assert result.tokens_used > 0
    assert result.keep


@pytest.mark.covers("Y-17")
def test_a_required_skill_is_named_and_not_loaded(call: Call, session: Session) -> None:
    result = call("read_skill", skill_id="letters")
    assert result.result["requires"] == ["forms"]
    assert "'forms'" in result.result["hint"]
    assert [one.name for one in session.active] == ["letters"]


def test_where_required_skills_are_loaded_their_instructions_come_too(begin: Callable[..., Session]) -> None:
    executor = begin(dependencies="load").executor(dialect="registry")
    content = executor.execute_blocking("read_skill", {"skill_id": "letters"}).result["content"]
    assert content.index("Fill:") < content.index("Write.")


@pytest.mark.covers("Y-18")
def test_an_unknown_skill_is_an_error_that_names_it(call: Call) -> None:
    result = call("read_skill", skill_id="nope")
    assert (result.success, result.code) == (False, "skill-not-found")
    assert "'nope'" in (result.error or "")


@pytest.mark.covers("Y-19")
def test_a_file_of_a_skill_is_read(call: Call) -> None:
    call("read_skill", skill_id="forms")
    result = call("read_skill_resource", skill_id="forms", path="templates/t.yaml")
    assert result.result["content"] == "a: 1\nb: 2\nc: 3\nd: 4\n"


@pytest.mark.covers("Y-20")
def test_a_path_that_leaves_the_skill_is_refused(call: Call, skills: Path) -> None:
    (skills / "secret").write_text("the secret")
    (skills / "forms" / "link").symlink_to(skills / "secret")
    call("read_skill", skill_id="forms")
    for path in ("../letters/SKILL.md", "/etc/passwd", "a/../../..", "templates/../../secret", "link"):
        result = call("read_skill_resource", skill_id="forms", path=path)
        assert (result.success, result.code, result.result) == (False, "file-refused", None), path
        assert "traversal" in (result.error or "")


@pytest.mark.covers("Y-21")
@pytest.mark.each("skill_id", ["..", "../forms", "/", "", " ", ".", "forms/..", "unknown", "\0", "a\nb"])
@pytest.mark.each(("tool", "more"), [("read_skill", {}), ("read_skill_resource", {"path": "templates/t.yaml"})])
def test_an_id_that_is_none_is_an_error(call: Call, tool: str, more: dict[str, Any], skill_id: str) -> None:
    call("read_skill", skill_id="forms")
    result = call(tool, skill_id=skill_id, **more)
    assert not result.success
    assert result.code in ("skill-not-found", "invalid-argument")


@pytest.mark.covers("Y-22")
def test_a_missing_file_and_a_folder_are_told_apart(call: Call) -> None:
    call("read_skill", skill_id="forms")
    missing = call("read_skill_resource", skill_id="forms", path="templates/none.yaml")
    folder = call("read_skill_resource", skill_id="forms", path="templates")
    assert missing.code == "file-missing"
    assert not folder.success
    assert (folder.code, folder.error) != (missing.code, missing.error)
    assert missing.error != folder.error


def test_a_skill_must_be_read_before_its_files(call: Call) -> None:
    result = call("read_skill_resource", skill_id="forms", path="templates/t.yaml")
    assert result.code == "skill-not-active"
    assert "forms" in (result.hint or "")


def test_a_script_is_not_read_and_nobody_is_sent_to_a_tool_that_is_not_there(call: Call) -> None:
    call("read_skill", skill_id="forms")
    result = call("read_skill_resource", skill_id="forms", path="scripts/echo.py")
    assert result.code == "script-read"
    assert "skills_run" not in (result.hint or "")


def test_without_skills_there_are_no_tools_and_no_text() -> None:
    session = Library.from_files().session()
    assert session.tools("registry") == []
    assert session.instructions(dialect="registry") == ""


def test_a_blocked_skill_is_neither_listed_nor_read(begin: Callable[..., Session]) -> None:
    session = begin(Policy(blocked=["forms"]))
    executor = session.executor(dialect="registry")
    assert [one["id"] for one in executor.execute_blocking("list_skills").result["skills"]] == ["letters"]
    assert executor.execute_blocking("read_skill", {"skill_id": "forms"}).code == "skill-blocked"
    assert "forms" not in session.instructions(dialect="registry")


def test_with_delivery_by_instructions_the_text_has_what_was_read(begin: Callable[..., Session]) -> None:
    session = begin(delivery="instructions")
    result = session.executor(dialect="registry").execute_blocking("read_skill", {"skill_id": "forms"})
    assert "Fill:" not in result.result["content"]
    assert not result.keep
    text = session.instructions(dialect="registry")
    assert "Fill:" in text
    assert "- `forms`" not in text
    assert "- `letters`" in text
