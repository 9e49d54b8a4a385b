"""Reading the files of a workspace that others wrote to."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from metier.proof import workspace_files
from metier.proof.workspace_files import MORE, read_workspace

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")


def test_plain_files_are_read_and_everything_else_is_named(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c.txt").write_bytes(b"1")
    (tmp_path / ".hidden").write_bytes(b"2")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "large").write_bytes(b"x" * (workspace_files.MAX_FILE_BYTES + 1))
    os.mkfifo(tmp_path / "pipe")
    found = read_workspace(tmp_path)
    assert found.files == {"a/b/c.txt": b"1", ".hidden": b"2"}
    assert sorted(found.left_out) == ["large", "link", "pipe"]


def test_a_workspace_that_has_become_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_bytes(b"1")
    (tmp_path / "work").symlink_to("secret")
    found = read_workspace(tmp_path / "work")
    assert (found.files, found.left_out) == ({}, (MORE,))


def test_a_workspace_that_is_gone_has_nothing_that_could_be_read(tmp_path: Path) -> None:
    assert read_workspace(tmp_path / "gone").left_out == (MORE,)


def test_names_that_are_no_text_are_kept_apart(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"a\xff")).write_bytes(b"1")
    found = read_workspace(tmp_path)
    assert [*found.files, *found.left_out] == ["a\\udcff"]


def test_all_files_together_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_files, "MAX_BYTES", 5)
    (tmp_path / "a").write_bytes(b"123")
    (tmp_path / "b").write_bytes(b"456")
    found = read_workspace(tmp_path)
    assert len(found.files) == len(found.left_out) == 1
