"""`metier listing`: how much models are shown of a skill, shown and set."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Call = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]


@pytest.fixture
def skills(own_home: Path, write_skill: Write, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with skills, and the folder of a user."""
    project = own_home / "project"
    (project / ".git").mkdir(parents=True)
    for name in ("notes", "plain"):
        write_skill(own_home / "skills" / name, description=f"Does the work of {name}.")
    write_skill(own_home / "skills" / "typed", description="Does.", more="disable-model-invocation: true\n")
    monkeypatch.chdir(project)
    return own_home / "skills"


def test_a_mode_is_set_shown_and_counts_at_once(metier: Call, skills: Path, own_home: Path) -> None:
    code, out, err = metier("--skills", skills, "listing", "notes", "name-only")
    assert (code, err) == (0, "")
    assert "notes: name-only" in out
    file = own_home / ".metier" / "policy.yaml"
    assert file.read_text() == "version: 1\nskills:\n  listing:\n    notes: name-only\n"
    where = f"name-only, set by {file}:4 (personal)"
    assert metier("--skills", skills, "listing", "notes") == (0, f"notes: {where}\n", "")
    shown = metier("--skills", skills, "show", "notes")[1]
    assert "listing" in shown and ":4 (personal)" in shown.replace("\n", "")
    explained = metier("--skills", skills, "policy", "explain", "notes")[1]
    assert "listing  name-only" in explained
    listed = metier("--skills", skills, "list")[1]
    assert "LISTING" in listed and "name-only" in listed and "manual" in listed
    catalog = metier("--skills", skills, "catalog")[1]
    assert '<names_only search="skills_search">notes</names_only>' in catalog
    assert "work of notes" not in catalog


def test_comments_stay_and_the_project_has_a_file_of_its_own(metier: Call, skills: Path, own_home: Path) -> None:
    mine = own_home / ".metier" / "policy.yaml"
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("# Mine.\nversion: 1\nskills:\n  # Boring.\n  listing: {plain: off}  # for now\n")
    assert metier("--skills", skills, "listing", "plain", "manual")[0] == 0
    assert mine.read_text() == "# Mine.\nversion: 1\nskills:\n  # Boring.\n  listing: {plain: manual}  # for now\n"
    code, out, _ = metier("--skills", skills, "listing", "plain", "pinned", "--project")
    assert code == 0
    assert "manual, set by" in out and "all the same" in out
    assert "plain: pinned" in (own_home / "project" / ".metier" / "policy.yaml").read_text()
    found = json.loads(metier("--skills", skills, "listing", "plain", "--json")[1])
    assert found == {"name": "plain", "mode": "manual", "set_by": f"{mine}:5 (personal)"}


def test_what_a_skill_says_itself_is_told(metier: Call, skills: Path) -> None:
    assert metier("--skills", skills, "listing", "typed")[1] == "typed: manual, set by the skill itself\n"
    assert metier("--skills", skills, "listing", "plain")[1] == "plain: listed\n"


def test_what_is_off_is_left_out_of_the_list_without_a_warning(metier: Call, skills: Path) -> None:
    metier("--skills", skills, "listing", "plain", "off")
    code, out, err = metier("--skills", skills, "list")
    assert (code, err) == (0, "")
    assert "Does the work of plain" not in out and "1 off" in out
    assert "  off " in next(
        line for line in metier("--skills", skills, "list", "--all")[1].splitlines() if "plain" in line
    )


@pytest.mark.each("arguments", [("plain", "hidden"), ("nowhere",), ("plain", "off", "--user", "--project")])
def test_wrong_usage_is_told(metier: Call, skills: Path, arguments: tuple[str, ...]) -> None:
    code, out, err = metier("--skills", skills, "listing", *arguments)
    assert (code, out) == (2, "") or code == 1
    assert err


def test_no_agent_sets_a_mode() -> None:
    from metier.guard import Action, Guard, MemoryLog

    call = Action(point="call", tool="Bash", arguments={"command": "metier listing deploy pinned"})
    assert Guard(audit=MemoryLog()).decide(call).outcome == "deny"


@pytest.mark.covers("ACC-18")
def test_doctor_says_when_there_are_more_skills_than_models_cope_with(
    metier: Call, own_home: Path, write_skill: Write
) -> None:
    for number in range(60):
        write_skill(own_home / "many" / f"skill-{number}", description="Does it.")
    code, out, _ = metier("--skills", own_home / "many", "doctor")
    assert code == 0
    assert "many-skills" in out and "60 skills" in out and "metier listing" in out
    metier("--skills", own_home / "many", "listing", "skill-1*", "name-only")
    assert "many-skills" not in metier("--skills", own_home / "many", "doctor")[1]


def test_the_command_and_a_session_have_one_default_budget() -> None:
    from metier.cli import parser
    from metier.session import context

    assert parser.DEFAULT_BUDGET == context.DEFAULT_BUDGET


def test_a_name_that_no_skill_has_is_set_and_said_to_be_nobodys(
    metier: Call, write_skill: Write, tmp_path: Path
) -> None:
    write_skill(tmp_path / "skills" / "team-report")
    code, out, err = metier("--skills", tmp_path / "skills", "listing", "team-reprt", "pinned")
    assert (code, "team-reprt: pinned" in out) == (0, True)
    assert "Did you mean 'team-report'?" in err
    assert metier("--skills", tmp_path / "skills", "listing", "team-*", "pinned")[2] == ""
    assert metier("--skills", tmp_path / "skills", "listing", "team-report", "pinned")[2] == ""
