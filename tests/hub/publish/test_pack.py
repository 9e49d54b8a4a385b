"""Archives of skills."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
from tests.hub.publish.conftest import HIGH, write_release

from metier.cli import main
from metier.errors import ArchiveRefused, FileRefused, InvalidArgument, MetierError, Refused, SkillInvalid
from metier.hub.publish.pack import pack, pack_skill
from metier.hub.publish.release import read_release
from metier.skill import FolderPackage
from metier.skill.package import digest_of_files
from metier.source.unpack import unpack

KINDS = ("pdf.skill", "pdf.zip", "pdf.tar.gz", "pdf.tgz")


def unpacked_digest(data: bytes) -> str:
    return digest_of_files(
        {path: ("exec" if one.executable else "file", one.data) for path, one in unpack(data).items()}
    )


@pytest.mark.parametrize("name", KINDS)
def test_an_archive_has_the_content_digest_of_its_folder(tmp_path: Path, name: str) -> None:
    folder = write_release(tmp_path / "pdf")
    for left_out in (".git/config", "node_modules/x/index.js", "scripts/__pycache__/fill.pyc", ".DS_Store"):
        (folder / left_out).parent.mkdir(parents=True, exist_ok=True)
        (folder / left_out).write_text("not a part of it")
    release, told = pack_skill(folder, tmp_path / name)
    data = (tmp_path / name).read_bytes()
    assert sorted(unpack(data)) == ["SKILL.md", "notes.md", "scripts/fill.py"]
    assert unpacked_digest(data) == release.digest == told["digest"] == FolderPackage(folder).digest()


@pytest.mark.covers("A-34")
@pytest.mark.parametrize("name", KINDS)
def test_members_have_no_other_mode_owner_or_time(tmp_path: Path, name: str) -> None:
    folder = write_release(tmp_path / "pdf")
    (folder / "notes.md").chmod(0o4600)
    (folder / "scripts/fill.py").chmod(0o700)
    pack_skill(folder, tmp_path / name)
    if name.endswith(("gz", "tgz")):
        with tarfile.open(tmp_path / name) as tar:
            found = {(one.name, one.mode, one.uid, one.uname, one.mtime) for one in tar}
        assert found == {
            ("SKILL.md", 0o644, 0, "", 0),
            ("notes.md", 0o644, 0, "", 0),
            ("scripts/fill.py", 0o755, 0, "", 0),
        }
        return
    with zipfile.ZipFile(tmp_path / name) as archive:
        modes = {(one.filename, one.external_attr >> 16, one.date_time[0]) for one in archive.infolist()}
    assert modes == {
        ("SKILL.md", 0o100644, 1980),
        ("notes.md", 0o100644, 1980),
        ("scripts/fill.py", 0o100755, 1980),
    }


@pytest.mark.parametrize("is_process", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_same_content_gives_the_same_bytes_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_process: bool
) -> None:
    """Under another umask, locale, time zone, order of files, clock and seed of hashes, and from another folder."""
    files = ["SKILL.md", "notes.md", "scripts/fill.py", "Ärger/Öl.md", "z.md", "B.md", "a.md"]
    text = f"---\nname: pdf\ndescription: Fill forms. Use for forms.\nversion: 1.0.0\n---\n{'All of it. ' * 500}\n"
    made: list[list[bytes]] = []
    for number, (umask, zone, locale, order, touched, seed) in enumerate(
        [
            (0o022, "UTC", "C.UTF-8", files, 1_700_000_000, "1"),
            (0o077, "Asia/Kathmandu", "C", files[::-1], 86_400, "2"),
            (0o000, "America/St_Johns", "tr_TR.UTF-8", sorted(files), 4_000_000_000, "3"),
        ]
    ):
        folder = tmp_path / str(number) / "pdf"
        for name, value in {"TZ": zone, "LC_ALL": locale, "LANG": locale, "PYTHONHASHSEED": seed}.items():
            monkeypatch.setenv(name, value)
        archives = [tmp_path / f"{number}.skill", tmp_path / f"{number}.tar.gz"]
        before = os.umask(umask)
        try:
            time.tzset()
            for path in order:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(text if path == "SKILL.md" else path * 100, encoding="utf-8")
                (folder / path).chmod((0o777 if path.endswith(".py") else 0o666) & ~umask)
                os.utime(folder / path, (touched, touched))
            for to in archives:
                words = ["pack", str(folder), "--to", str(to), "--json"]
                if is_process:
                    subprocess.run([sys.executable, "-m", "metier", *words], check=True, capture_output=True)
                else:
                    assert main(words) == 0
        finally:
            os.umask(before)
        made.append([to.read_bytes() for to in archives])
    monkeypatch.undo()
    time.tzset()
    assert made[0] == made[1] == made[2]


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_links_become_copies_and_that_is_said(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_release(tmp_path / "pdf")
    (folder / "docs").mkdir()
    (folder / "docs/notes.md").symlink_to("../notes.md")
    assert main(["pack", str(folder), "--to", str(tmp_path / f"pdf.{kind}")]) == 0
    assert "copies take the place of docs/notes.md" in capsys.readouterr().out
    found = unpack((tmp_path / f"pdf.{kind}").read_bytes())
    assert found["docs/notes.md"].data == b"Notes.\n"


def _outside(folder: Path) -> None:
    (folder / "x").symlink_to("/etc/hostname")


def _above(folder: Path) -> None:
    (folder / "x").symlink_to("../../secret")


def _to_folder(folder: Path) -> None:
    (folder / "x").symlink_to("scripts")


def _to_link(folder: Path) -> None:
    (folder / "x").symlink_to("y")
    (folder / "y").symlink_to("x")


def _colon(folder: Path) -> None:
    (folder / "a:b.md").write_text("x")


def _reserved(folder: Path) -> None:
    (folder / "nul.txt").write_text("x")


def _invisible(folder: Path) -> None:
    (folder / "a\u202eb.md").write_text("x")


def _junk(folder: Path) -> None:
    (folder / "__MACOSX").mkdir()
    (folder / "__MACOSX/x").write_text("x")


def _alike(folder: Path) -> None:
    (folder / "NOTES.md").write_text("x")


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "x").symlink_to("pipe")


@pytest.mark.covers("A-34")
@pytest.mark.parametrize(
    "make", [_outside, _above, _to_folder, _to_link, _colon, _reserved, _invisible, _junk, _alike, _pipe]
)
def test_files_that_nobody_could_unpack_are_refused(tmp_path: Path, make: object) -> None:
    folder = write_release(tmp_path / "pdf")
    (tmp_path / "secret").write_text("secret")
    make(folder)  # type: ignore[operator]
    for name in ("pdf.skill", "pdf.tar.gz"):
        with pytest.raises((FileRefused, ArchiveRefused)):
            pack_skill(folder, tmp_path / name)
        assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("no frontmatter", MetierError),
        ("---\nname: Pdf\ndescription: Do it.\n---\nDo.\n", MetierError),
        ("---\nname: pdf\n---\nDo.\n", SkillInvalid),
        ("---\nname: pdf\ndescription: Do it. Use it.\nversion: ../../1\n---\nDo.\n", SkillInvalid),
        ("---\nname: pdf\ndescription: Do it. Use it.\nversion: latest\n---\nDo.\n", SkillInvalid),
        (f"---\nname: pdf\ndescription: Do it. Use it.\n---\n{HIGH}", Refused),
    ],
)
def test_what_is_not_sound_is_not_packed(tmp_path: Path, text: str, error: type[Exception]) -> None:
    folder = write_release(tmp_path / "pdf")
    (folder / "SKILL.md").write_text(text)
    with pytest.raises(error):
        pack_skill(folder, tmp_path / "pdf.skill")
    assert not (tmp_path / "pdf.skill").exists()


def test_findings_that_somebody_answers_for_are_packed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_release(tmp_path / "pdf", body=HIGH)
    to = tmp_path / "pdf.skill"
    assert main(["pack", str(folder), "--to", str(to)]) == 1
    assert "REMOTE_PIPE_TO_SHELL" in capsys.readouterr().err
    assert main(["pack", str(folder), "--to", str(to), "--accept-findings", "It shows an attack.", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["file"], told["files"], told["bytes"]) == (str(to), 3, to.stat().st_size)


@pytest.mark.parametrize("to", ["pdf", "pdf.rar", "pdf/own.skill", "folder.skill"])
def test_an_archive_has_a_name_of_its_own(tmp_path: Path, to: str) -> None:
    folder = write_release(tmp_path / "pdf")
    (tmp_path / "folder.skill").mkdir()
    with pytest.raises((InvalidArgument, FileRefused)):
        pack_skill(folder, tmp_path / to)


def test_a_file_that_shrinks_like_a_bomb_is_stored_as_it_is(tmp_path: Path) -> None:
    folder = write_release(tmp_path / "pdf")
    (folder / "zeros.bin").write_bytes(bytes(1_500_000))
    release = read_release(folder)
    assert unpacked_digest(pack(release.files)) == release.digest


def test_a_link_in_place_of_the_archive_is_replaced_and_not_followed(tmp_path: Path) -> None:
    folder = write_release(tmp_path / "pdf")
    (tmp_path / "other").write_text("mine")
    (tmp_path / "pdf.skill").symlink_to(tmp_path / "other")
    pack_skill(folder, tmp_path / "pdf.skill")
    assert (tmp_path / "other").read_text() == "mine"
    assert not (tmp_path / "pdf.skill").is_symlink()
