"""`metier lock`."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from metier.library.lock_file import LockedSkill, LockFile, change_lock
from metier.skill import FolderPackage

Metier = Callable[..., tuple[int, str, str]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_skill: Callable[..., Path]) -> Path:
    """A fresh clone with a locked skill; this machine has no store."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    write_skill(folder / ".metier/skills/pdf")
    skill = LockedSkill(
        name="pdf", folder=".metier/skills/pdf", digest=FolderPackage(folder / ".metier/skills/pdf").digest()
    )
    change_lock(str(folder / "metier.lock"), lambda lock: lock.with_skill(skill))
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.covers("A-36")
def test_a_fresh_clone_is_verified_without_a_store(metier: Metier, project: Path) -> None:
    code, out, _ = metier("lock", "--check")
    assert (code, out.strip().endswith("1 skill as locked.")) == (0, True), out
    (project / ".metier/skills/pdf/more.md").write_text("x")
    code, out, _ = metier("lock", "--check", "--json")
    shape = json.loads(out)
    [found] = shape["differences"]
    assert (code, shape["ok"], found["problem"], found["files"]) == (3, False, "changed", [])
    assert found["actual"] == FolderPackage(project / ".metier/skills/pdf").digest() != found["expected"]


@pytest.mark.covers("A-36")
def test_each_file_that_differs_is_listed_with_both_hashes(
    metier: Metier, project: Path, tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    shared = write_skill(tmp_path / "shared/csv")
    source = shared if shared.is_dir() else shared.parent
    (source / "notes.md").write_text("old")
    (source / "gone.md").write_text("gone")
    assert metier("add", str(source), "--to", "project", "--yes", "--json")[0] == 0
    there = project / ".metier/skills/csv"
    (there / "notes.md").write_text("new")
    (there / "gone.md").unlink()
    (there / "extra.md").write_text("extra")
    (there / "SKILL.md").chmod(0o755)
    code, out, _ = metier("lock", "--check", "--json")
    [found] = json.loads(out)["differences"]
    files = {file["path"]: file for file in found["files"]}

    def sha(text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()

    assert code == 3
    assert (files["notes.md"]["expected"], files["notes.md"]["actual"]) == (sha("old"), sha("new"))
    assert (files["gone.md"]["expected"], files["gone.md"]["actual"]) == (sha("gone"), None)
    assert (files["extra.md"]["expected"], files["extra.md"]["actual"]) == (None, sha("extra"))
    assert (files["SKILL.md"]["expected_mode"], files["SKILL.md"]["actual_mode"]) == ("file", "exec")
    code, out, _ = metier("lock", "--check")
    assert code == 3
    assert sha("old") in out
    assert sha("new") in out


def test_a_skill_that_is_gone_is_a_difference(metier: Metier, project: Path) -> None:
    os.rename(project / ".metier/skills/pdf", project / "elsewhere")
    code, out, _ = metier("lock", "--check", "--json")
    assert (code, json.loads(out)["differences"][0]["problem"]) == (3, "missing")


@pytest.mark.each("words", ["lock", "lock --check", "install --frozen", "install"])
def test_a_project_without_a_lock_file_says_so(
    metier: Metier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = metier(*words.split())
    assert code == 1
    assert "metier.lock" in err


def test_a_broken_lock_file_is_an_error_and_stays(metier: Metier, project: Path) -> None:
    (project / "metier.lock").write_text("version = 1\nskill = 3\n")
    code, out, _ = metier("lock", "--check", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (1, "lock-invalid")
    assert (project / "metier.lock").read_text() == "version = 1\nskill = 3\n"


def test_what_is_locked_is_listed(metier: Metier, project: Path) -> None:
    code, out, _ = metier("lock")
    assert (code, "pdf" in out) == (0, True)
    [file] = json.loads(metier("lock", "--json")[1])
    assert file["file"] == str(project / "metier.lock")
    assert file["skills"][0]["name"] == "pdf"


def test_a_skill_that_was_installed_is_shown_with_its_source(metier: Metier, project: Path) -> None:
    def signed(lock: LockFile) -> LockFile:
        [pdf] = lock.skills
        return lock.with_skill(replace(pdf, source="dir:/srv/skills", signer="oms:sha256:0", pinned=True, by="ada"))

    change_lock(str(project / "metier.lock"), signed)
    assert json.loads(metier("show", "pdf", "--json")[1])["locked"]["source"] == "dir:/srv/skills"
    out = metier("show", "pdf")[1]
    assert "from dir:/srv/skills, pinned" in out and "oms:sha256:0" in out
    assert "pdf (pinned)" in metier("lock")[1]
    (project / "metier.lock").write_text("version = ")
    assert json.loads(metier("show", "pdf", "--json")[1])["locked"] is None


@pytest.mark.parametrize("folder", ["tools/pdf", "env/bin/pdf", ".metier/skills/csv"])
def test_a_lock_file_is_not_believed_about_folders_that_are_none_of_skills(
    metier: Metier, project: Path, write_skill: Callable[..., Path], tmp_path: Path, folder: str
) -> None:
    """It came with a project: else what anybody installs would take the place of programs that are not in it."""
    hostile = write_skill(tmp_path / "hostile/pdf", body="Other.")
    source = hostile if hostile.is_dir() else hostile.parent
    (project / folder).mkdir(parents=True)
    (project / folder / "mine").write_text("mine")
    skill = LockedSkill(name="pdf", folder=folder, source=f"dir:{source}", digest=FolderPackage(source).digest())
    change_lock(str(project / "metier.lock"), lambda lock: lock.without(".metier/skills/pdf").with_skill(skill))
    for command in ("install --yes", "install --frozen", "update --all --yes", "outdated", "remove pdf --yes"):
        code, _, err = metier(*command.split())
        assert (code, os.listdir(project / folder)) == (1, ["mine"]), err
        assert "no folder of that skill" in err
