"""`metier outdated`, `update`, `install` and `remove`."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.hub.sources.git_repositories import SKILL, File, commit, make_repository

from metier.hub import updates
from metier.hub.sources import fetch as seam
from metier.hub.sources.address import parse_address
from metier.library.lock_file import LockedSkill, LockFile
from metier.library.skills_lock import computed_hash
from metier.skill import FolderPackage
from metier.skill.package import files_of

Metier = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shared(tmp_path: Path, write_skill: Callable[..., Path]) -> Path:
    folder = tmp_path / "shared"
    write_skill(folder / "hello", description="Says hello. Use when greeting.")
    write_skill(folder / "bye", description="Says goodbye. Use when leaving.")
    return folder


@pytest.fixture
def installed(metier: Metier, project: Path, shared: Path) -> Path:
    """The project's folder of skills, with both of them."""
    said(metier, "add", shared, "--all", "--to", "project", "--yes")
    return project / ".metier/skills"


def said(metier: Metier, *arguments: object, code: int = 0) -> Any:
    found, out, err = metier(*map(str, arguments), "--json")
    assert found == code, out + err
    return json.loads(out)


def digest(folder: Path) -> str:
    return FolderPackage(folder).digest()


def test_only_skills_that_have_news_are_outdated(metier: Metier, installed: Path, shared: Path) -> None:
    assert said(metier, "outdated") == {"skills": [], "notes": [], "problems": []}
    (shared / "hello/more.md").write_text("x")
    assert [one["name"] for one in said(metier, "outdated")["skills"]] == ["hello"]
    code, out, _ = metier("outdated")
    assert (code, "hello" in out, "bye" in out) == (0, True, False)


def test_an_update_shows_the_difference_and_new_capabilities_first(
    metier: Metier, installed: Path, shared: Path
) -> None:
    (shared / "hello/scripts").mkdir()
    (shared / "hello/scripts/hi.py").write_text("print('hi')\n")
    before = digest(installed / "hello")
    shape = said(metier, "update", "--all", "--dry-run")
    [skill] = shape["skills"]
    assert (skill["name"], skill["new_capabilities"], shape["updated"]) == ("hello", ["scripts"], [])
    assert "+print('hi')" in skill["diff"]
    assert digest(installed / "hello") == before
    code, out, _ = metier("update", "--all", "--yes")
    assert code == 0
    assert out.index("scripts (new)") < out.index("+print('hi')") < out.index("hello@project is updated")
    assert digest(installed / "hello") == digest(shared / "hello")
    assert said(metier, "lock", "--check")["ok"] is True


def test_a_pinned_skill_and_one_that_its_source_lost_stay(metier: Metier, project: Path, shared: Path) -> None:
    said(metier, "add", shared, "hello", "--pin", "--to", "project", "--yes")
    said(metier, "add", shared, "bye", "--to", "project", "--yes")
    (shared / "hello/more.md").write_text("x")
    shutil.rmtree(shared / "bye")
    shape = said(metier, "update", "--all", "--yes")
    assert (shape["updated"], shape["pinned"]) == ([], ["hello"])
    assert "no longer in" in shape["notes"][0]
    assert (project / ".metier/skills/bye/SKILL.md").exists()
    assert not (project / ".metier/skills/hello/more.md").exists()


def test_an_update_does_not_overwrite_what_somebody_changed(metier: Metier, installed: Path, shared: Path) -> None:
    (installed / "hello/SKILL.md").write_text((installed / "hello/SKILL.md").read_text() + "Mine.\n")
    (shared / "hello/more.md").write_text("x")
    shape = said(metier, "update", "hello", "--yes", code=1)
    assert "changed by hand" in shape["problems"][0]
    assert "Mine." in (installed / "hello/SKILL.md").read_text()


def test_two_hundred_unchanged_skills_of_ten_sources_are_updated_by_one_request_a_source(
    metier: Metier, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = LockFile(path=str(project / "metier.lock"))
    for number in range(10):
        with zipfile.ZipFile(tmp_path / f"{number}.zip", "w") as archive:
            archive.writestr("x/SKILL.md", "---\nname: x\ndescription: Does x.\n---\nDo.\n")
        state = seam.resolve(parse_address(str(tmp_path / f"{number}.zip")))
        every = [
            LockedSkill(
                name=f"x-{number}-{skill}",
                folder=f".metier/skills/x-{number}-{skill}",
                source=state.address.name,
                revision=state.revision,
                digest="sha256:" + "0" * 64,
            )
            for skill in range(20)
        ]
        lock = lock.with_skill(*every)
    lock.write()
    assert len(lock.skills) == 200
    asked: list[str] = []
    resolve = seam.resolve

    def counted(address: Any, transfer: Any = None) -> Any:
        asked.append(address.name)
        return resolve(address, transfer)

    def no_fetch(*_: Any) -> Any:
        raise AssertionError("nothing changed, and it was fetched")

    monkeypatch.setattr(updates, "resolve", counted)
    monkeypatch.setattr(seam, "fetch", no_fetch)
    shape = said(metier, "update", "--all", "--yes")
    assert (shape["updated"], shape["problems"]) == ([], [])
    assert len(asked) == len(set(asked)) == 10


@pytest.mark.covers("A-36")
def test_a_frozen_install_with_a_difference_changes_nothing(metier: Metier, installed: Path) -> None:
    (installed / "hello/SKILL.md").write_text("changed")
    shutil.rmtree(installed / "bye")
    shape = said(metier, "install", "--frozen", code=3)
    assert shape["problems"][0]["name"] == "hello"
    assert (installed / "hello/SKILL.md").read_text() == "changed"
    assert not (installed / "bye").exists()


def test_install_brings_back_what_is_locked_without_its_source(
    metier: Metier, installed: Path, shared: Path, project: Path
) -> None:
    lock, before = (project / "metier.lock").read_bytes(), digest(installed / "hello")
    shutil.rmtree(shared)
    shutil.rmtree(installed / "bye")
    (installed / "hello/more.md").write_text("x")
    shape = said(metier, "install", "--yes")
    assert sorted(shape["installed"]) == ["bye", "hello"]
    assert digest(installed / "hello") == before
    assert (project / "metier.lock").read_bytes() == lock
    assert said(metier, "lock", "--check")["ok"] is True


@pytest.mark.covers("A-36")
def test_a_frozen_install_of_a_fresh_clone_takes_only_what_the_lock_says(
    metier: Metier, installed: Path, shared: Path, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.rmtree(installed)
    monkeypatch.setenv("METIER_DATA", str(tmp_path / "other-machine"))
    (shared / "bye/more.md").write_text("x")
    shape = said(metier, "install", "--frozen", code=3)
    assert [one["name"] for one in shape["problems"]] == ["bye"]
    assert not installed.exists() or not list(installed.iterdir())
    (shared / "bye/more.md").unlink()
    assert sorted(said(metier, "install", "--frozen")["installed"]) == ["bye", "hello"]
    assert said(metier, "lock", "--check")["ok"] is True


def test_a_removed_skill_is_gone_from_folder_and_locks_and_stays_in_the_history(
    metier: Metier, installed: Path, project: Path
) -> None:
    before = digest(installed / "hello")
    shape = said(metier, "remove", "hello", "--yes")
    assert shape["skills"][0]["digest"] == before
    assert [path.name for path in installed.iterdir()] == ["bye"]
    assert [skill.name for skill in LockFile.read(project / "metier.lock").skills] == ["bye"]
    assert list(json.loads((project / "skills-lock.json").read_text())["skills"]) == ["bye"]
    code, _, err = metier("remove", "helo", "--yes")
    assert code == 1
    assert "helo" in err


def test_nobody_needs_to_be_asked_where_there_is_nothing_to_do(metier: Metier, installed: Path, shared: Path) -> None:
    assert metier("install")[:2] == (0, "2 skills as locked.\n")
    assert metier("update", "--all")[:2] == (0, "Everything is up to date.\n")
    (shared / "hello/more.md").write_text("x")
    code, out, err = metier("update", "--all")
    assert (code, "more.md" in out, "--yes" in err) == (2, True, True)
    assert not (installed / "hello/more.md").exists()
    shutil.rmtree(installed / "bye")
    assert metier("install")[0] == 2
    assert not (installed / "bye").exists()


def test_removing_a_skill_tells_who_needs_it(metier: Metier, installed: Path, shared: Path) -> None:
    text = (shared / "hello/SKILL.md").read_text()
    (shared / "hello/SKILL.md").write_text(text.replace("---\n", "---\nrequires: [bye]\n", 1))
    said(metier, "update", "hello", "--yes")
    code, _, err = metier("remove", "bye")
    assert (code, "hello needs bye." in err) == (2, True)
    assert said(metier, "remove", "bye", "--yes")["skills"][0]["needed_by"] == ["hello"]


def test_the_history_of_a_removed_skill_stays_and_a_rollback_says_how_to_get_it_back(
    metier: Metier, installed: Path
) -> None:
    before = digest(installed / "hello")
    said(metier, "remove", "hello", "--yes")
    assert said(metier, "history", "hello")["versions"][-1]["digest"] == before
    code, _, err = metier("rollback", "hello")
    command = shlex.split(err.partition("`")[2].partition("`")[0])
    assert (code, command[:2]) == (1, ["metier", "add"])
    said(metier, *command[1:], "--yes")
    assert digest(installed / "hello") == before


def test_copies_in_the_folders_of_clients_follow_an_update_and_go_with_a_removed_skill(
    metier: Metier, project: Path, shared: Path, own_home: Path
) -> None:
    said(metier, "add", shared, "hello", "--to", "project", "--yes", "--client", "claude-code")
    (shared / "hello/more.md").write_text("x")
    assert said(metier, "update", "hello", "--yes")["copies"][0]["ok"] is True
    assert (project / ".claude/skills/hello/more.md").exists()
    shape = said(metier, "remove", "hello", "--yes")
    assert shape["skills"][0]["copies"] == [str(project / ".claude/skills")]
    assert not (project / ".claude/skills/hello").exists()


def test_a_branch_that_moved_is_an_update_and_the_locked_commit_is_still_installed(
    metier: Metier, project: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def git(*words: str) -> None:
        own = ("-c", "user.name=ada", "-c", "user.email=ada@example.com", "-c", "init.defaultBranch=main")
        subprocess.run(["git", *own, *words], cwd=shared, check=True, capture_output=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    said(metier, "add", f"git+file://{shared}", "hello", "--to", "project", "--yes")
    there = project / ".metier/skills/hello"
    before, lock = digest(there), (project / "metier.lock").read_bytes()
    assert said(metier, "outdated")["skills"] == []
    (shared / "hello/more.md").write_text("x")
    git("add", ".")
    git("commit", "-qm", "two")
    [newer] = said(metier, "outdated")["skills"]
    assert newer["installed"] != newer["newest"]
    assert said(metier, "update", "hello", "--yes")["updated"] == ["hello"]
    assert (there / "more.md").exists()
    # After a rollback it is no longer what that commit has: the source has news, and a clone is as locked.
    assert metier("rollback", "hello")[0] == 0
    assert [one["name"] for one in said(metier, "outdated")["skills"]] == ["hello"]
    with monkeypatch.context() as clone:
        clone.setenv("METIER_DATA", str(tmp_path / "clone"))
        assert said(metier, "install", "--frozen")["ok"] is True
    # Another machine, with the lock of before.
    (project / "metier.lock").write_bytes(lock)
    shutil.rmtree(there)
    monkeypatch.setenv("METIER_DATA", str(tmp_path / "other-machine"))
    assert said(metier, "install", "--frozen")["installed"] == ["hello"]
    assert digest(there) == before
    assert (project / "metier.lock").read_bytes() == lock


def test_an_update_brings_the_skills_that_it_newly_needs(
    metier: Metier, installed: Path, shared: Path, write_skill: Callable[..., Path]
) -> None:
    write_skill(shared / "wave", description="Waves. Use when far away.")
    text = (shared / "hello/SKILL.md").read_text()
    (shared / "hello/SKILL.md").write_text(text.replace("---\n", "---\nrequires: [wave]\n", 1))
    assert said(metier, "update", "hello", "--yes")["updated"] == ["wave", "hello"]
    assert (installed / "wave/SKILL.md").exists()
    assert said(metier, "lock", "--check")["ok"] is True


def test_a_skill_that_another_source_of_the_lock_has_is_brought_from_there(
    metier: Metier, installed: Path, shared: Path, tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    write_skill(shared / "wave", description="Waves. Use when far away.")
    write_skill(tmp_path / "other/greet", description="Greets. Use when polite.", more="requires: [wave]\n")
    shape = said(metier, "add", tmp_path / "other", "greet", "--to", "project", "--yes")
    assert ([one["name"] for one in shape["skills"]], shape["warnings"]) == (["wave", "greet"], [])
    sources = {one["name"]: one["source"] for one in said(metier, "lock")[0]["skills"]}
    assert sources["wave"] == f"dir:{shared}"
    assert said(metier, "lock", "--check")["ok"] is True


@pytest.mark.covers("A-40")
def test_a_rollback_to_the_version_before_an_update_is_locked_and_works_at_once(
    metier: Metier, installed: Path, shared: Path
) -> None:
    before = digest(installed / "hello")
    (shared / "hello/scripts").mkdir()
    (shared / "hello/scripts/hi.py").write_text("print('hi')\n")
    said(metier, "update", "hello", "--yes")
    assert metier("run", "hello", "hi.py")[:2] == (0, "hi\n")
    assert metier("rollback", "hello", "--reason", "It talks too much.")[0] == 0
    assert digest(installed / "hello") == before
    assert said(metier, "lock", "--check")["ok"] is True
    skills = json.loads((installed.parent.parent / "skills-lock.json").read_text())["skills"]
    assert skills["hello"]["computedHash"] == computed_hash(files_of(FolderPackage(installed / "hello")))
    assert said(metier, "outdated")["skills"][0]["name"] == "hello"


def test_what_a_frozen_install_brought_is_approved_by_installing_or_adding_it(
    metier: Metier, installed: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.rmtree(installed)
    monkeypatch.setenv("METIER_DATA", str(tmp_path / "other-machine"))
    assert "hello" in said(metier, "install", "--frozen")["installed"]
    assert said(metier, "approve", "list", "--all")["approvals"] == []
    [skill] = said(metier, "add", shared, "hello", "--to", "project", "--yes")["skills"]
    assert (skill["changed"], skill["approved"]) == (False, True)
    assert len(said(metier, "approve", "list", "--all")["approvals"]) == 1
    shape = said(metier, "install", "--yes")
    assert [(one["name"], one["approved"]) for one in shape["skills"]] == [("bye", True)]
    assert len(said(metier, "approve", "list", "--all")["approvals"]) == 2
    assert said(metier, "install", "--yes")["skills"] == []


@pytest.mark.covers("A-34")
def test_a_skill_of_a_named_folder_is_never_updated_by_another_one_of_the_same_name(
    metier: Metier, project: Path, tmp_path: Path
) -> None:
    repository = make_repository(tmp_path / "repo.git")
    for text in (b"First ", b"Second "):
        files: dict[str, File] = {
            f"{folder}/SKILL.md": SKILL % b"pdf" + text + folder.encode() for folder in ("a/pdf", ".hidden/pdf")
        }
        commit(repository, files)
        command = "update pdf" if text == b"Second " else f"add git+file://{repository}#.hidden/pdf --to project"
        said(metier, *command.split(), "--yes")
        assert (project / ".metier/skills/pdf/SKILL.md").read_text().endswith(f"{text.decode()}.hidden/pdf")
