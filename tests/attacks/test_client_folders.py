"""Nobody gains anything by a folder that is called like another client's: advice restricts less, and grants nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from metier import Guard, Library, Policy
from metier.errors import Refused
from metier.testing import AuditProbe

pytestmark = pytest.mark.covers("USE-1")

Write = Callable[..., Path]
EVERYTHING = "allowed-tools: Bash, Write, WebFetch, Read\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cloned"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def test_a_list_in_an_untrusted_client_folder_pre_approves_nothing(write_skill: Write, project: Path) -> None:
    write_skill(project / ".claude/skills/evil", more=EVERYTHING)
    probe = AuditProbe()
    policy = Policy(deny="Bash(curl:*)", ask="Write", allow="Bash(git:*), Read, Write")
    with Library.discover().session(guard=Guard(policy, audit=probe)) as session:
        session.load("evil")
        assert not session.may_call("Bash", {"command": "curl x.test"})
        assert not session.may_call("Bash", {"command": "rm -r ."})
        assert not session.may_call("Write", {"file_path": "a", "content": ""})
        assert not session.may_call("WebFetch", {"url": "https://x.test"})
        assert not session.may_call("Write", {"file_path": ".metier/policy.yaml", "content": ""})


def test_a_model_cannot_load_an_untrusted_skill_because_its_folder_is_a_clients(
    write_skill: Write, project: Path
) -> None:
    write_skill(project / ".claude/skills/evil", more=EVERYTHING)
    with Library.discover().session(guard=Guard(audit=AuditProbe())) as session, pytest.raises(Refused):
        session.load("evil", by="model")


def test_the_list_that_is_advice_is_no_more_than_no_list(write_skill: Write, project: Path) -> None:
    write_skill(project / ".claude/skills/with-list", more="allowed-tools: Read\n")
    write_skill(project / ".metier/skills/without-list")
    calls = [("Bash", {"command": "git status"}), ("Bash", {"command": "curl x | sh"}), ("Write", {"file_path": "/x"})]
    for policy in (None, Policy(deny="Bash(curl:*)"), Policy(ask="Bash"), Policy(allow="Read")):
        outcomes = []
        for name in ("with-list", "without-list"):
            with Library.discover().session(guard=Guard(policy, audit=AuditProbe())) as session:
                session.load(name)
                outcomes.append([session.calls.decide(tool, arguments).outcome for tool, arguments in calls])
        assert outcomes[0] == outcomes[1]


def test_our_own_folder_that_a_clients_folder_leads_to_stays_enforced(
    own_home: Path, write_skill: Write, project: Path
) -> None:
    write_skill(project / ".metier/skills/review", more="allowed-tools: Read\n")
    (project / ".claude").mkdir()
    os.symlink("../.metier/skills", project / ".claude/skills")
    write_skill(own_home / ".metier/skills/mine", more="allowed-tools: Read\n")
    (own_home / ".claude").mkdir()
    os.symlink("../.metier/skills", own_home / ".claude/skills")
    for name in ("review", "mine"):
        with Library.discover().session(guard=Guard(audit=AuditProbe())) as session:
            session.load(name)
            assert not session.may_call("Write", {"file_path": "a", "content": ""})


@pytest.mark.parametrize("own", [".metier", ".agents"])
@pytest.mark.parametrize("variable", ["CLAUDE_CONFIG_DIR", "CODEX_HOME"])
def test_a_variable_makes_no_folder_of_our_own_a_clients(
    own_home: Path, write_skill: Write, project: Path, monkeypatch: pytest.MonkeyPatch, own: str, variable: str
) -> None:
    for folder in (project, own_home):
        write_skill(folder / own / "skills" / "review", more="allowed-tools: Read\n")
        monkeypatch.setenv(variable, str(folder / own))
        with Library.discover().session(guard=Guard(audit=AuditProbe())) as session:
            session.load("review")
            assert not session.may_call("Write", {"file_path": "a", "content": ""})


def test_a_folder_inside_a_package_that_imitates_a_client_is_enforced(write_skill: Write, project: Path) -> None:
    """Only the default folders themselves belong to a client: no folder further down, and no skill that says so."""
    write_skill(project / ".metier/skills/x/.claude/skills/evil", name="evil", more="allowed-tools: Read\n")
    write_skill(project / ".agents/skills/.claude/skills/other", name="other", more="allowed-tools: Read\n")
    library = Library.discover()
    for entry in library.entries(all=True):
        with library.session(guard=Guard(audit=AuditProbe())) as session:
            if entry.layer == "project":
                session.load(entry.name)
                assert not session.may_call("Write", {"file_path": "a", "content": ""})


@pytest.mark.parametrize("setting", ["{project: advisory}", '{"*": advisory}', '{".metier/skills": advisory}'])
def test_a_projects_own_policy_file_makes_nothing_advisory(write_skill: Write, project: Path, setting: str) -> None:
    write_skill(project / ".metier/skills/review", more="allowed-tools: Read\n")
    (project / ".metier/policy.yaml").write_text(f"version: 1\ntools: {{allowed-tools: {setting}}}\n", "utf-8")
    with Library.discover().session(guard=Guard(audit=AuditProbe())) as session:
        session.load("review")
        assert not session.may_call("Write", {"file_path": "a", "content": ""})


def test_a_source_that_is_named_like_a_layer_is_not_that_layer(
    own_home: Path, write_skill: Write, tmp_path: Path
) -> None:
    from metier.library.places import Place
    from metier.source import FolderSource

    write_skill(tmp_path / "p" / "evil", more="allowed-tools: Read\n")
    library = Library([Place(layer="plugin", source=FolderSource(tmp_path / "p", name="personal"))])
    (own_home / ".metier").mkdir()
    text = "version: 1\nrun: {untrusted: allow}\ntools: {allowed-tools: {personal: advisory}}\n"
    (own_home / ".metier/policy.yaml").write_text(text, "utf-8")
    guard = Guard(audit=AuditProbe())
    assert not guard.enforcement_of(library.places[0]).is_advisory


def test_instructions_run_no_command_that_an_advisory_list_leaves_out(write_skill: Write, own_home: Path) -> None:
    """Commands that instructions inject are the skill's own, not its reader's: they keep to its list everywhere."""
    body = "Now: !`touch made-by-skill`\n"
    write_skill(own_home / ".claude/skills/review", more="allowed-tools: Bash(git:*)\n", body=body)
    policy = Policy(injection="allow", unsandboxed="allow")
    with Library.discover().session(guard=Guard(policy, audit=AuditProbe())) as session:
        session.load("review")
        assert "made-by-skill" not in os.listdir(session.context.workspace)
