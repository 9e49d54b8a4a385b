"""Policies decide what `metier add` installs, and each refusal is on record."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from metier.library.lock_file import LockedSkill, LockFile
from metier.skill import FolderPackage

Metier = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shared(tmp_path: Path, write_skill: Callable[..., Path]) -> Path:
    write_skill(tmp_path / "shared/hello", description="Says hello. Use when greeting.")
    return tmp_path / "shared"


class Case(NamedTuple):
    policy: str
    exit_code: int
    code: str
    rule: str


CASES = {
    "a source that is denied": Case("sources: {deny: ['dir:*']}", 1, "source-denied", "sources.deny"),
    "a source that is not among those allowed": Case(
        "sources: {allow: ['oci:*']}", 1, "source-denied", "sources.allow"
    ),
    "an exact version is wanted": Case(
        "sources: {require: {pinned: true}}", 1, "source-denied", "sources.require.pinned"
    ),
    "a signature is wanted": Case("sources: {require: {signature: [oms]}}", 1, "signature-missing", ""),
    "a skill that is denied": Case("skills: {deny: ['hel*']}", 1, "skill-denied", "skills.deny"),
    "a name that is reserved": Case("skills: {reserved: [hello]}", 1, "name-reserved", "skills.reserved"),
    "a rule that denies": Case("rules: [{id: R4, point: install, effect: deny}]", 1, "rule-denied", "R4"),
    "a rule that asks": Case("rules: [{id: R5, point: install, effect: ask}]", 4, "approval-needed", "R5"),
}


@pytest.mark.covers("A-2", "A-3")
@pytest.mark.parametrize("what", CASES)
def test_a_policy_keeps_a_skill_out_and_that_is_on_record(
    metier: Metier, project: Path, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    case = CASES[what]
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"version: 1\nmode: enforce\n{case.policy}\n")
    monkeypatch.setenv("METIER_POLICY", str(policy))
    code, out, err = metier("add", shared, "hello", "--yes")
    assert (code, f"[{case.code}]" in err) == (case.exit_code, True), out + err
    assert not (project / ".metier").exists()
    assert not (project / "metier.lock").exists()
    records = json.loads(metier("audit", "tail", "--json")[1])["records"]
    [refused] = [one for one in records if one["type"] in ("skill.refused", "skill.installed")]
    assert refused["code"] == case.code
    assert case.rule in refused["rule"]


@pytest.mark.covers("A-6")
def test_a_policy_that_cannot_be_read_keeps_everything_out(
    metier: Metier, project: Path, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nmode: enforce\nsources: [\n")
    monkeypatch.setenv("METIER_POLICY", str(policy))
    code, _, err = metier("add", shared, "hello", "--yes")
    assert code != 0
    assert "policy" in err
    assert not (project / ".metier").exists()


def test_a_lock_is_not_believed_about_the_source_of_what_came_with_a_project(
    metier: Metier, project: Path, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"version: 1\nmode: enforce\nsources: {{allow: ['dir:{shared}']}}\n")
    monkeypatch.setenv("METIER_POLICY", str(policy))
    folder = project / ".metier/skills/hello"
    shutil.copytree(shared / "hello", folder)
    for change, code in (("Evil.", 3), ("", 0)):
        (folder / "SKILL.md").write_text((shared / "hello/SKILL.md").read_text() + change)
        entry = LockedSkill(
            name="hello",
            folder=".metier/skills/hello",
            source=f"dir:{shared}",
            path="hello",
            digest=FolderPackage(folder).digest(),
        )
        LockFile(path=str(project / "metier.lock"), skills=(entry,)).write()
        found, out, err = metier("install", "--yes", "--json")
        assert (found, json.loads(out)["ok"]) == (code, not change), out + err


def test_a_rule_about_updates_leaves_the_installed_version(
    metier: Metier, project: Path, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert metier("add", shared, "hello", "--yes")[0] == 0
    before = (project / ".metier/skills/hello/SKILL.md").read_bytes()
    (shared / "hello/SKILL.md").write_text((shared / "hello/SKILL.md").read_text() + "More.\n")
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nmode: enforce\nrules: [{id: U1, point: update, effect: deny}]\n")
    monkeypatch.setenv("METIER_POLICY", str(policy))
    for words in (["add", shared, "hello"], ["update", "hello"]):
        code, out, err = metier(*words, "--yes")
        assert code == 1, out + err
    assert (project / ".metier/skills/hello/SKILL.md").read_bytes() == before
    assert metier("lock", "--check")[0] == 0


def test_what_a_rule_asks_about_waits_for_an_answer_and_is_installed_after_it(
    metier: Metier, project: Path, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "home/.metier/policy.yaml"
    policy.parent.mkdir(parents=True)
    policy.write_text("version: 1\nmode: enforce\nrules: [{id: R5, point: install, effect: ask}]\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert metier("add", shared, "hello", "--yes")[0] == 4
    [waiting] = json.loads(metier("approve", "list", "--json")[1])["requests"]
    assert waiting["skill"].startswith("hello@")
    assert metier("approve", "grant", waiting["id"], "--reason", "Looked at.")[0] == 0
    code, out, err = metier("add", shared, "hello", "--yes")
    assert code == 0, out + err
    assert (project / ".metier/skills/hello/SKILL.md").exists()
