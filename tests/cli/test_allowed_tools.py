"""`allowed-tools` restrict calls or are advice, by place, and commands say why."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tables import crossed

from metier import FunctionTool, Guard, Library, Policy
from metier.testing import AuditProbe

pytestmark = pytest.mark.covers("USE-1")

Metier = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]
REVIEW = "allowed-tools: Read, Bash(git diff:*)\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def price_of(item: str) -> str:
    """The price of an item."""
    return f"{item} costs 3."


def called(library: Library, name: str = "review", policy: Policy | None = None) -> tuple[Any, AuditProbe]:
    """The result of the developer's own function while a skill is active, and the records."""
    probe = AuditProbe()
    with library.session(guard=Guard(policy, audit=probe)) as session:
        session.load(name)
        return session.executor([FunctionTool(price_of)]).execute_blocking("price_of", {"item": "tea"}), probe


def test_a_skill_of_another_client_does_not_block_the_developers_own_function(
    own_home: Path, write_skill: Write, project: Path
) -> None:
    write_skill(own_home / ".claude/skills/review", more=REVIEW)
    result, probe = called(Library.discover())
    assert result.success and "costs 3" in str(result.result)
    record = probe.one(event="call", tool="price_of")
    assert (record.decision, record.success) == ("allow", True)
    assert record.rule == "review: allowed-tools (advisory)"
    assert "outside of the allowed-tools of skill 'review'" in record.reason and "Claude Code" in record.reason
    assert record.code == "outside-allowed-tools"


@crossed(
    ("folder", [".claude/skills", ".metier/skills", ".agents/skills"]), ("layer", ["personal", "project"]), one_in=2
)
def test_only_folders_of_other_clients_are_advisory_without_a_setting(
    own_home: Path, write_skill: Write, project: Path, folder: str, layer: str
) -> None:
    write_skill((own_home if layer == "personal" else project) / folder / "review", more=REVIEW)
    result, _ = called(Library.discover())
    assert result.success is (folder == ".claude/skills")
    if not result.success:
        assert result.code == "tool-not-allowed" and "tools.allowed-tools" in result.hint


def test_what_the_developer_names_and_what_administrators_deploy_is_enforced(
    own_home: Path, write_skill: Write, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_skill(own_home / ".claude/skills/review", more=REVIEW)
    assert not called(Library.from_folder(own_home / ".claude/skills"))[0].success
    deployed = tmp_path / "deployed" / ".claude" / "skills"
    write_skill(deployed / "audit", more=REVIEW)
    monkeypatch.setenv("METIER_ENTERPRISE", str(deployed))
    assert not called(Library.discover(), "audit")[0].success
    assert not called(Library.discover(), "audit", Policy(allowed_tools={"*": "advisory"}))[0].success


def test_what_is_disallowed_stays_so_in_folders_of_other_clients(
    own_home: Path, write_skill: Write, project: Path
) -> None:
    write_skill(own_home / ".claude/skills/review", more=f"{REVIEW}disallowed-tools: price_of\n")
    result, _ = called(Library.discover())
    assert result.code == "tool-not-allowed"


def test_an_advisory_list_lifts_nothing_of_a_list_that_is_enforced(
    own_home: Path, write_skill: Write, project: Path
) -> None:
    write_skill(own_home / ".claude/skills/review", more="allowed-tools: price_of\n")
    write_skill(own_home / ".metier/skills/strict", more="allowed-tools: Read\n")
    with Library.discover().session(guard=Guard(audit=AuditProbe())) as session:
        session.load(["review", "strict"])
        assert (
            session.executor([FunctionTool(price_of)]).execute_blocking("price_of", {"item": "tea"}).code
            == "tool-not-allowed"
        )
        assert session.calls.allowed_tools == frozenset({"read"})


@pytest.mark.each(
    ("setting", "passes"),
    [
        ({"personal": "enforced"}, False),
        ({".claude/skills": "enforced"}, False),
        ({"~/.claude/skills": "enforced"}, False),
        ({"*": "enforced"}, False),
        ({"project": "enforced", "plugin": "enforced", ".metier/skills": "enforced"}, True),
        ({"*": "enforced", ".claude/skills": "advisory"}, False),
    ],
)
@pytest.mark.parametrize("where", ["program", "file"])
def test_one_setting_by_layer_source_or_folder_enforces(
    own_home: Path, write_skill: Write, project: Path, setting: Any, passes: bool, where: str
) -> None:
    write_skill(own_home / ".claude/skills/review", more=REVIEW)
    policy = Policy(allowed_tools=setting) if where == "program" else None
    if where == "file":
        write_policy(own_home, setting)
    assert called(Library.discover(), policy=policy)[0].success is passes


def write_policy(folder: Path, setting: dict[str, str]) -> None:
    (folder / ".metier").mkdir(exist_ok=True)
    text = f"version: 1\ntools:\n  allowed-tools: {json.dumps(setting)}\n"
    (folder / ".metier" / "policy.yaml").write_text(text, encoding="utf-8")


def test_the_users_file_makes_a_source_advisory_and_the_projects_file_does_not(
    own_home: Path, write_skill: Write, project: Path
) -> None:
    write_skill(project / ".metier/skills/review", more=REVIEW)
    write_policy(project, {"project": "advisory", "*": "advisory"})
    assert not called(Library.discover())[0].success
    write_policy(own_home, {"project": "advisory"})
    assert called(Library.discover())[0].success
    write_policy(project, {".metier/skills": "enforced"})
    assert not called(Library.discover())[0].success


def test_a_change_of_the_setting_counts_from_the_next_decision_on(
    own_home: Path, write_skill: Write, project: Path
) -> None:
    write_skill(own_home / ".claude/skills/review", more=REVIEW)
    with Library.discover().session(guard=Guard(audit=AuditProbe())) as session:
        session.load("review")
        executor = session.executor([FunctionTool(price_of)])
        outcomes = []
        for setting in ({}, {"personal": "enforced"}, {"project": "enforced"}):
            write_policy(own_home, setting)
            outcomes.append(executor.execute_blocking("price_of", {"item": "tea"}).success)
    assert outcomes == [True, False, True]


def test_a_copy_that_sync_made_in_another_clients_folder_is_enforced_like_its_original(
    own_home: Path, write_skill: Write, project: Path, metier: Metier
) -> None:
    write_skill(own_home / ".metier/skills/review", more=REVIEW)
    assert metier("sync", "--to", project / ".claude/skills", "--only", "review")[0] == 0
    metier("trust", project, "--yes")
    library = Library.discover()
    assert not called(library, "review@project")[0].success


def test_show_doctor_and_explain_say_which_holds_and_why(
    own_home: Path, write_skill: Write, project: Path, metier: Metier
) -> None:
    write_skill(own_home / ".claude/skills/review", more=REVIEW)
    write_skill(own_home / ".metier/skills/mine", more="allowed-tools: Read\n")
    why = "its folder belongs to Claude Code"
    assert f"enforcement advisory: {why}" in " ".join(metier("show", "review")[1].split())
    assert json.loads(metier("show", "review", "--json")[1])["allowed_tools"]["enforcement"] == "advisory"
    assert "enforced: tools.allowed-tools says nothing else" in " ".join(metier("show", "mine")[1].split())
    doctor = " ".join(metier("doctor")[1].split())
    assert "allowed-tools are advisory in ~/.claude/skills" in doctor and why in doctor
    assert "allowed-tools are enforced everywhere else" in doctor
    said = metier("explain", "review", "--command", "rm -r build")[1]
    assert said.startswith("allow") and "(advisory)" in said and why in said
    assert metier("explain", "mine", "--command", "ls")[1].startswith("deny")
    said = metier("policy", "explain", "review", "--command", "rm -r build")[1]
    assert said.startswith("allow") and "outside of the allowed-tools" in said
    write_policy(own_home, {".claude/skills": "enforced"})
    said = metier("show", "review")[1]
    assert "enforced" in said and "policy.yaml:3" in said
    assert "allowed-tools are enforced everywhere" in metier("doctor")[1]


def test_a_model_is_told_of_advice_as_advice(own_home: Path, write_skill: Write, project: Path) -> None:
    write_skill(own_home / ".claude/skills/review", more=REVIEW)
    with Library.discover().session() as session:
        session.load("review")
        content = session.prompt.content("review")
    assert "only these tools are allowed" not in content
    assert "does not restrict others: Read, Bash(git diff:*)" in content
