"""Folders that somebody made so that they cannot be removed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from metier._paths import safe_rmtree

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes and links as POSIX has them")
NOBODY = 65_534


def deep(folder: Path) -> None:
    here = os.open(".", os.O_RDONLY)
    os.chdir(folder)
    try:
        for number in range(3_000):
            with open("f", "w"):
                pass
            os.mkdir("d" * 100)
            os.chdir("d" * 100)
            if number % 500 == 499:
                os.chmod("..", 0)
    finally:
        os.fchdir(here)
        os.close(here)


def locked(folder: Path) -> None:
    inner = folder / "a/b/c"
    inner.mkdir(parents=True)
    (inner / "f").write_text("x")
    (folder / "a/other").mkdir()
    for path, mode in ((inner / "f", 0), (inner, 0), (folder / "a/b", 0o444), (folder / "a/other", 0o111)):
        path.chmod(mode)
    (folder / "a").chmod(0o100)
    folder.chmod(0)


def wide(folder: Path) -> None:
    for number in range(300):
        (folder / f"{number}/x/y").mkdir(parents=True)
        (folder / f"{number}/x/f").write_text("")
    os.mkfifo(folder / "pipe")


def by_nobody(act: Callable[[], bool]) -> bool:
    """Whether it is true for a user without rights, also where these tests are run by one who has all."""
    if os.geteuid() != 0:
        return act()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            code = 0 if act() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("fill", [deep, locked, wide])
def test_whatever_was_made_of_a_folder_it_is_removed(fill: Callable[[Path], None], quick_folder: Path) -> None:
    folder = quick_folder / "folder"
    folder.mkdir()
    fill(folder)
    assert safe_rmtree(str(folder))
    assert list(quick_folder.iterdir()) == []


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("fill", [deep, locked, wide])
def test_a_user_without_rights_removes_what_is_theirs(
    fill: Callable[[Path], None], quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(quick_folder)  # by name alone, as the folders above may be closed to others
    quick_folder.chmod(0o777)

    def act() -> bool:
        folder = Path("folder")
        folder.mkdir()
        fill(folder)
        return safe_rmtree("folder") and os.listdir() == []

    assert by_nobody(act)


def test_links_are_removed_and_not_followed(quick_folder: Path) -> None:
    kept = quick_folder / "kept"
    kept.mkdir()
    (kept / "f").write_text("x")
    kept.chmod(0o500)
    folder = quick_folder / "folder"
    (folder / "d").mkdir(parents=True)
    for path in ("link", "d/link"):
        (folder / path).symlink_to(kept)
    assert safe_rmtree(str(folder))
    assert (kept / "f").read_text() == "x"
    assert kept.stat().st_mode & 0o777 == 0o500
    kept.chmod(0o700)


def test_a_folder_that_is_a_link_stays(quick_folder: Path) -> None:
    (quick_folder / "kept").mkdir()
    (quick_folder / "kept/f").write_text("x")
    (quick_folder / "link").symlink_to("kept")
    assert not safe_rmtree(str(quick_folder / "link"))
    assert (quick_folder / "kept/f").exists()


def test_a_folder_that_is_not_there_is_gone(quick_folder: Path) -> None:
    assert safe_rmtree(str(quick_folder / "missing"))
