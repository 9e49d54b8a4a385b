"""Paths by which one folder can be reached."""

from __future__ import annotations

from pathlib import Path

import pytest

from metier.session.resource_grants import paths_of, read_mounts

pytestmark = pytest.mark.covers("SEC-5")


def test_a_folder_has_a_path_in_each_place_where_something_around_it_is_mounted(tmp_path: Path) -> None:
    folder = tmp_path / "project" / "skills" / "a"
    (folder / "scripts").mkdir(parents=True)
    # A link is what a second mount looks like, to whoever asks whether two paths are the same.
    (tmp_path / "again").symlink_to(tmp_path / "project")
    (tmp_path / "part").symlink_to(folder / "scripts")
    (tmp_path / "covered").mkdir()
    mounts = (
        (b"8:1", "/", "/"),
        (b"8:1", f"{tmp_path}/project", f"{tmp_path}/again"),
        (b"8:1", f"{folder}/scripts", f"{tmp_path}/part"),
        (b"8:1", f"{tmp_path}/project", f"{tmp_path}/covered"),
        (b"8:2", "/", f"{tmp_path}/other"),
    )
    assert paths_of(str(folder), mounts) == (
        (str(folder), ""),
        (f"{tmp_path}/again/skills/a", ""),
        (f"{tmp_path}/part", "scripts"),
    )
    by_the_second = paths_of(f"{tmp_path}/again/skills/a", mounts)
    assert {path for path, part in by_the_second if not part} == {str(folder), f"{tmp_path}/again/skills/a"}


def test_a_folder_has_all_its_paths_where_one_mount_lies_over_another(tmp_path: Path) -> None:
    (tmp_path / "shared" / "skills").mkdir(parents=True)
    (tmp_path / "again").symlink_to(tmp_path / "shared" / "skills")
    top = str(tmp_path / "shared")
    below, over = (b"0:25", "/", top), (b"0:29", "/", top)
    deeper = (b"0:30", "/", f"{top}/skills")  # mounted before what now covers it
    again = (b"0:29", "/skills", f"{tmp_path}/again")
    for mounts in ((below, over, again), (over, below, again), (deeper, over, again)):
        assert (f"{tmp_path}/again", "") in paths_of(f"{top}/skills", mounts)


def test_a_folder_that_is_mounted_once_has_one_path(tmp_path: Path) -> None:
    assert paths_of(str(tmp_path), read_mounts()) == ((str(tmp_path), ""),)
