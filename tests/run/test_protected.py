"""What runs outside of the cage later cannot be written from inside it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from metier.run.protected import PROTECTED, Protected, protected_in

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no runner there keeps files from being written")


def names(folder: Path) -> set[str]:
    return {os.path.relpath(found.path, folder) for found in protected_in(str(folder))}


def make(folder: Path, name: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")
    return path


@pytest.mark.parametrize("name", PROTECTED)
def test_each_name_is_found_where_it_is_there(tmp_path: Path, name: str) -> None:
    path = make(tmp_path, name)
    assert protected_in(str(tmp_path)) == (Protected(str(path)),)


@pytest.mark.parametrize("name", [".git/hooks", ".vscode", ".claude", ".github/workflows", ".husky"])
def test_a_folder_is_found_as_a_whole(tmp_path: Path, name: str) -> None:
    make(tmp_path, f"{name}/inside")
    assert names(tmp_path) == {name}


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    assert protected_in(str(tmp_path)) == ()


@pytest.mark.parametrize("name", [".git/index", ".git/objects/ab/cd", ".git/HEAD", "Makefile", "src/.bashrc", "hooks"])
def test_ordinary_work_stays_writable(tmp_path: Path, name: str) -> None:
    make(tmp_path, name)
    assert protected_in(str(tmp_path)) == ()


@pytest.mark.parametrize("target", ["/etc/passwd", "gone", ".bashrc", "."])
def test_a_link_is_told_as_one_wherever_it_leads(tmp_path: Path, target: str) -> None:
    (tmp_path / ".bashrc").symlink_to(target)
    assert protected_in(str(tmp_path)) == (Protected(str(tmp_path / ".bashrc"), is_link=True),)


def test_a_link_on_the_way_is_not_followed_but_told(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    make(elsewhere, "hooks/pre-commit")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / ".git").symlink_to(elsewhere)
    assert protected_in(str(folder)) == (Protected(str(folder / ".git"), is_link=True),)


def test_the_file_that_says_where_a_worktree_belongs_is_protected_itself(tmp_path: Path) -> None:
    path = make(tmp_path, ".git")
    assert protected_in(str(tmp_path)) == (Protected(str(path)),)


def test_the_folder_itself_may_be_reached_by_a_link(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    make(folder, ".npmrc")
    (tmp_path / "link").symlink_to(folder)
    assert protected_in(str(tmp_path / "link")) == (Protected(str(tmp_path / "link" / ".npmrc")),)


def test_pipes_and_other_things_are_found_and_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".profile")
    os.mkfifo(tmp_path / ".github")
    assert names(tmp_path) == {".profile", ".github"}


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="permissions do not bind this user")
def test_a_parent_that_cannot_be_opened_is_protected_as_a_whole(tmp_path: Path) -> None:
    make(tmp_path, ".git/hooks/pre-commit")
    (tmp_path / ".git").chmod(0)
    try:
        assert names(tmp_path) == {".git"}
    finally:
        (tmp_path / ".git").chmod(0o700)


@pytest.mark.parametrize("folder", ["gone", "file", "with\0zero", "x" * 5000])
def test_a_folder_that_cannot_be_opened_has_nothing(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("")
    assert protected_in(f"{tmp_path}/{folder}") == ()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open descriptors cannot be counted here")
def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    make(tmp_path, ".git/hooks/x")
    make(tmp_path, ".github/workflows/x")
    protected_in(str(tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        protected_in(str(tmp_path))
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_list_has_no_name_twice_and_goes_one_folder_deep() -> None:
    assert len(set(PROTECTED)) == len(PROTECTED)
    assert all(name.count("/") <= 1 and not os.path.isabs(name) and ".." not in name for name in PROTECTED)
