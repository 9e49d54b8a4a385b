"""What a script left in the workspace shows no secret, and nothing of the user's is touched for that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from metier.session.secret_scrubbing import MARK, MAX_BYTES, Masks, NewFiles

MASKS = Masks(["correct-horse"])


def test_only_new_files_of_text_are_changed(tmp_path: Path) -> None:
    (tmp_path / "before").write_text("correct-horse")
    left = NewFiles(str(tmp_path))
    (tmp_path / "before").write_text("correct-horse again")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "new.txt").write_text("x correct-horse y\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfecorrect-horse")
    (tmp_path / "large").write_text("correct-horse" + "x" * MAX_BYTES)
    (tmp_path / "clean").write_text("nothing")
    assert left.hide(MASKS) == ("A secret was taken out of sub/new.txt.".replace("/", os.sep),)
    assert (tmp_path / "sub" / "new.txt").read_text() == f"x {MARK} y\n"
    assert (tmp_path / "before").read_text() == "correct-horse again"
    assert (tmp_path / "binary").read_bytes() == b"\xff\xfecorrect-horse"


@pytest.mark.skipif(os.name != "posix", reason="links and pipes as POSIX has them")
def test_no_link_leads_to_a_file_that_is_changed(tmp_path: Path) -> None:
    outside, work = tmp_path / "outside", tmp_path / "work"
    for folder in (outside, work):
        folder.mkdir()
        (folder / "mine").write_text("correct-horse")
    left = NewFiles(str(work))
    (work / "link").symlink_to(outside / "mine")
    (work / "folder").symlink_to(outside)
    os.link(work / "mine", work / "other-name")
    os.mkfifo(work / "pipe")
    assert left.hide(MASKS) == ()
    assert (outside / "mine").read_text() == (work / "mine").read_text() == "correct-horse"


def test_where_there_are_too_many_files_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metier.session.secret_scrubbing.MOST_FILES", 2)
    for name in "abc":
        (tmp_path / name).write_text("")
    left = NewFiles(str(tmp_path))
    (tmp_path / "new").write_text("correct-horse")
    (note,) = left.hide(MASKS)
    assert "too many" in note
