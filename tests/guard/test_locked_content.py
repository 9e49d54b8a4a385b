"""The lock file at use: a skill whose content is not the locked one is denied, with or without a store."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from metier import Guard, Library
from metier.errors import Refused
from metier.guard import Action, Actor, Decision, MemoryLog
from metier.guard.decision import Point
from metier.guard.governance import Governance
from metier.guard.policy.files import Policies
from metier.library.lock_file import LockedSkill, change_lock
from metier.library.places import TrustStore
from metier.session.active_skills import subject_of
from metier.skill import FolderPackage

Write = Callable[..., Path]


@pytest.fixture
def project(tmp_path: Path, write_skill: Write) -> Path:
    """A fresh clone: a skill and the lock file that it was committed with, and nothing on record."""
    (tmp_path / ".git").mkdir()
    write_skill(tmp_path / ".metier/skills/pdf", body="Fill forms.")
    TrustStore().trust(tmp_path)
    lock(tmp_path)
    return tmp_path


def lock(project: Path, folder: str = ".metier/skills/pdf") -> None:
    skill = LockedSkill(name="pdf", folder=folder, digest=FolderPackage(project / folder).digest())
    change_lock(str(project / "metier.lock"), lambda lock: lock.with_skill(skill))


def decide(project: Path, point: Point = "load", policy: str = "") -> Decision:
    library = Library.discover(project, cache=False)
    entry = library.get("pdf")
    texts = [("enterprise", policy)] if policy else []
    governance = Governance(Policies(texts=texts), store=None)  # type: ignore[arg-type]
    guard = Guard(governance=governance, audit=MemoryLog())
    action = Action(point=point, skill=subject_of(entry, entry.package.digest()), by="user", isolated=True)
    return guard.decide(action)


@pytest.mark.covers("A-36")
@pytest.mark.each("point", ["load", "read", "run", "hook", "inject"])
def test_a_changed_skill_is_denied_wherever_its_content_matters(point: Point, tmp_path: Path) -> None:
    folder = tmp_path / ".metier/skills/pdf"
    folder.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (folder / "SKILL.md").write_text("---\nname: pdf\ndescription: Fills forms.\n---\nFill.\n")
    TrustStore().trust(tmp_path)
    lock(tmp_path)
    assert decide(tmp_path, point).code != "integrity-failed"
    (folder / "more.md").write_text("x")
    found = decide(tmp_path, point)
    assert (found.outcome, found.code, found.check) == ("deny", "integrity-failed", "lock")
    assert "metier lock --check" in str(found.hint)


def test_a_skill_of_a_fresh_clone_that_is_not_the_locked_one_is_not_loaded(project: Path) -> None:
    session = Library.discover(project, cache=False).session()
    assert session.load("pdf").active[0].name == "pdf"
    (project / ".metier/skills/pdf/SKILL.md").write_text("---\nname: pdf\ndescription: x\n---\nSteal.\n")
    with pytest.raises(Refused) as refused:
        Library.discover(project, cache=False).session().load("pdf")
    assert refused.value.code == "integrity-failed"


def test_the_lock_file_is_read_again_when_it_changes(project: Path) -> None:
    (project / ".metier/skills/pdf/more.md").write_text("x")
    assert decide(project).code == "integrity-failed"
    lock(project)
    assert decide(project).is_allowed
    os.unlink(project / "metier.lock")
    (project / ".metier/skills/pdf/more.md").write_text("y")
    assert decide(project).is_allowed


@pytest.mark.each(
    ("policy", "is_allowed"), [("", False), ("mode: enforce\n", False), ("mode: audit\n", True), ("mode: off\n", True)]
)
def test_a_broken_lock_file_fails_closed_where_policy_is_enforced(
    policy: str, is_allowed: bool, tmp_path: Path
) -> None:
    folder = tmp_path / ".metier/skills/pdf"
    folder.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (folder / "SKILL.md").write_text("---\nname: pdf\ndescription: Fills forms.\n---\nFill.\n")
    TrustStore().trust(tmp_path)
    (tmp_path / "metier.lock").write_text("version = 1\n[[skill")
    found = decide(tmp_path, policy=f"version: 1\n{policy}" if policy else "")
    assert found.is_allowed is is_allowed
    if not is_allowed:
        assert (found.code, found.check) == ("lock-invalid", "lock")
        assert "metier.lock" in found.reason


def test_a_difference_holds_in_every_mode(project: Path) -> None:
    (project / ".metier/skills/pdf/more.md").write_text("x")
    assert decide(project, policy="version: 1\nmode: audit\n").code == "integrity-failed"


def test_the_users_own_lock_file_counts_for_personal_skills(own_home: Path, write_skill: Write, tmp_path: Path) -> None:
    write_skill(own_home / ".metier/skills/pdf")
    lock(own_home / ".metier", "skills/pdf")
    assert decide(tmp_path).is_allowed
    (own_home / ".metier/skills/pdf/more.md").write_text("x")
    assert decide(tmp_path).code == "integrity-failed"


def test_a_home_that_is_a_link_has_the_same_lock(
    own_home: Path, write_skill: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(own_home)
    monkeypatch.setenv("HOME", str(tmp_path / "link"))
    write_skill(own_home / ".metier/skills/pdf")
    lock(own_home / ".metier", "skills/pdf")
    assert decide(tmp_path).is_allowed
    (own_home / ".metier/skills/pdf/more.md").write_text("x")
    assert decide(tmp_path).code == "integrity-failed"


def test_a_locked_skill_that_differs_is_not_in_quarantine_elsewhere(project: Path) -> None:
    (project / ".metier/skills/pdf/more.md").write_text("x")
    with pytest.raises(Refused):
        Library.discover(project, cache=False).session().load("pdf")
    assert not any(state.blocked for state in Governance.default().states(Actor()))
