"""Folders that are only read: whether a change is noticed, and nothing is read twice without one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from metier.run.virtual import ShellLimits
from metier.run.virtual.plan import KnownFolders

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links and times as POSIX has them")
LIMITS = ShellLimits()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "d/e/f").write_text("one")
    (tmp_path / "link").symlink_to("d")
    return tmp_path


def look(known: KnownFolders, folder: Path) -> tuple[object, str]:
    found, key = known.look(str(folder), LIMITS)
    return found, key


@pytest.mark.usefixtures("settled")
def test_a_folder_that_has_not_changed_is_not_looked_through_again(folder: Path) -> None:
    known = KnownFolders()
    found, key = look(known, folder)
    again, same = look(known, folder)
    assert again is found
    assert same == key == look(KnownFolders(), folder)[1]


def same_size_and_date(folder: Path) -> None:
    file = folder / "d/e/f"
    about = file.stat()
    file.write_text("two")
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))


def another_link(folder: Path) -> None:
    (folder / "link").unlink()
    (folder / "link").symlink_to("e")


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize(
    "act",
    [
        same_size_and_date,
        another_link,
        lambda folder: (folder / "d/e/f").write_text("longer"),
        lambda folder: (folder / "d/e/new").write_text(""),
        lambda folder: (folder / "d/e/f").unlink(),
        lambda folder: (folder / "new").mkdir(),
        lambda folder: (folder / "d/e/f").chmod(0o755),
        lambda folder: (folder / "d").rename(folder / "c"),
    ],
    ids=["same size and date", "link", "content", "new file", "no file", "new folder", "mode", "name"],
)
def test_a_change_is_noticed(folder: Path, act: Callable[[Path], object], next_tick: Callable[[Path], None]) -> None:
    known = KnownFolders()
    key = look(known, folder)[1]
    for path in (folder, folder / "d", folder / "d/e", folder / "d/e/f"):
        next_tick(path)
    act(folder)
    assert look(known, folder)[1] != key


def test_a_folder_that_was_changed_just_now_is_taken_for_changed(folder: Path) -> None:
    known = KnownFolders()
    (folder / "d/e/f").write_text("two")
    assert look(known, folder)[1] != look(known, folder)[1]


@pytest.mark.usefixtures("settled")
def test_other_limits_are_looked_at_anew(folder: Path) -> None:
    from metier.errors import ShellRefused

    known = KnownFolders()
    look(known, folder)
    with pytest.raises(ShellRefused):
        known.look(str(folder), ShellLimits(file_bytes=2))
