"""Skills in archives, read in place."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from metier import Library
from metier.errors import ArchiveRefused, FileRefused, SkillUnreadable
from metier.source import ArchiveSource

TEXT = "---\nname: {name}\ndescription: Does {name}.\n---\nDo {name}.\n"


def skill(name: str) -> str:
    return TEXT.format(name=name)


def write_zip(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def write_tar(path: Path, files: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix in (".gz", ".tgz") else "w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content.encode())
            archive.addfile(info, io.BytesIO(content.encode()))
    return path


KINDS: list[tuple[str, Callable[[Path, dict[str, str]], Path]]] = [
    ("pack.zip", write_zip),
    ("pack.skill", write_zip),
    ("pack.tar.gz", write_tar),
    ("pack.tgz", write_tar),
    ("pack.tar", write_tar),
    ("PACK.ZIP", write_zip),
]


@pytest.mark.parametrize(("file", "write"), KINDS, ids=[file for file, _ in KINDS])
def test_skills_of_every_kind_of_archive_are_found(
    tmp_path: Path, file: str, write: Callable[[Path, dict[str, str]], Path]
) -> None:
    path = write(tmp_path / file, {"a/SKILL.md": skill("a"), "a/notes.txt": "N", "group/b/skill.md": skill("b")})
    source = ArchiveSource(path)
    assert sorted(source.find_skills().found) == ["a/SKILL.md", "group/b/skill.md"]
    assert source.read("a/SKILL.md")[0] == skill("a").encode()
    assert source.package("a/SKILL.md").read("notes.txt") == b"N"
    assert source.folder("group/b/skill.md") == "b"
    assert source.location("a/SKILL.md") == f"{path}!/a/SKILL.md"
    assert source.name.lower() == "pack"


def test_a_skill_at_the_root_of_an_archive_is_named_after_the_archive(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "pdf-forms.skill", {"SKILL.md": "No frontmatter at all.", "scripts/run.py": "x"})
    library = Library.from_folder(path, cache=False)
    assert [entry.name for entry in library] == ["pdf-forms"]
    assert library.read("pdf-forms", "scripts/run.py") == b"x"


def test_what_lies_inside_a_skill_is_its_own(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "p.zip", {"a/SKILL.md": skill("a"), "a/examples/b/SKILL.md": skill("b")})
    source = ArchiveSource(path)
    assert list(source.find_skills().found) == ["a/SKILL.md"]
    assert source.package("a/SKILL.md").read("examples/b/SKILL.md") == skill("b").encode()


def test_the_exact_name_wins_over_other_cases(tmp_path: Path) -> None:
    """Two cases of one name cannot both be unpacked everywhere, so such an archive is refused."""
    path = write_zip(tmp_path / "p.zip", {"a/skill.md": "wrong", "a/SKILL.md": skill("a")})
    with pytest.raises(ArchiveRefused, match="same name"):
        ArchiveSource(path).find_skills()


@pytest.mark.parametrize(
    "files",
    [
        {"a/SKILL.md": TEXT, "../up.txt": "x"},
        {"a/SKILL.md": TEXT, "/etc/passwd": "x"},
        {"a/SKILL.md": TEXT, "a/../../b": "x"},
        {"README.md": "no skill in here"},
    ],
    ids=["climbs", "absolute", "climbs from inside", "no skill"],
)
def test_a_hostile_or_empty_archive_is_refused_as_a_whole(tmp_path: Path, files: dict[str, str]) -> None:
    with pytest.raises(ArchiveRefused):
        ArchiveSource(write_zip(tmp_path / "p.zip", files)).find_skills()


def test_a_link_that_leads_out_of_the_archive_is_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "p.tar.gz", {"a/SKILL.md": skill("a")})
    with tarfile.open(path, "w:gz") as archive:
        link = tarfile.TarInfo("a/SKILL.md")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(ArchiveRefused):
        ArchiveSource(path).find_skills()


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"\x1f\x8b", b"not an archive", bytes(1024)])
def test_a_damaged_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "p.zip").write_bytes(data)
    with pytest.raises(ArchiveRefused):
        ArchiveSource(tmp_path / "p.zip").find_skills()


def test_an_archive_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiveRefused, match="cannot be read"):
        Library.from_folder(tmp_path / "missing.zip", cache=False)


def test_a_pipe_in_place_of_an_archive_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p.zip")
    with pytest.raises(ArchiveRefused):
        ArchiveSource(tmp_path / "p.zip").find_skills()


def test_a_changed_archive_is_read_again(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "p.zip", {"a/SKILL.md": skill("a"), "b/SKILL.md": skill("b")})
    library = Library.from_folder(path, cache=False)
    assert library.document("a").body == "Do a."
    os.replace(write_zip(tmp_path / "new", {"a/SKILL.md": skill("a") + "More.\n", "c/SKILL.md": skill("c")}), path)
    assert library.document("a").body == "Do a.\nMore."
    change = library.refresh()
    assert (change.added, change.changed, change.removed) == (("c",), ("a",), ("b",))


def test_an_unchanged_archive_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_zip(tmp_path / "p.zip", {"a/SKILL.md": skill("a")})
    source = ArchiveSource(path)
    first = source.package("a/SKILL.md")
    assert source.package("a/SKILL.md") is first


def test_an_archive_that_vanishes_leaves_a_finding_and_no_skill(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "p.zip", {"a/SKILL.md": skill("a")})
    library = Library.from_folder(path, cache=False)
    path.unlink()
    assert library.refresh().removed == ("a",)
    assert [finding.diagnostic.code for finding in library.findings()] == ["file-unreadable"]


def test_a_key_that_the_archive_does_not_have_is_unreadable(tmp_path: Path) -> None:
    source = ArchiveSource(write_zip(tmp_path / "p.zip", {"a/SKILL.md": skill("a")}))
    assert source.identity("b/SKILL.md") is None
    with pytest.raises(SkillUnreadable):
        source.read("b/SKILL.md")


def test_a_path_that_leaves_the_skill_is_refused(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "p.zip", {"a/SKILL.md": skill("a"), "secret.txt": "S"})
    with pytest.raises(FileRefused, match="traversal"):
        Library.from_folder(path, cache=False).read("a", "../secret.txt")


@pytest.mark.parametrize("folder", [".venv", ".svn", ".hg", ".git", "node_modules", "__pycache__"])
def test_folders_of_tools_in_an_archive_are_left_out_of_the_skill(tmp_path: Path, folder: str) -> None:
    path = write_zip(tmp_path / "p.zip", {"a/SKILL.md": skill("a"), f"a/{folder}/x": "x"})
    listing = ArchiveSource(path).package("a/SKILL.md").listing()
    assert [file.path for file in listing.files] == ["SKILL.md"]


@pytest.mark.parametrize(
    "file",
    ["Screenshot at 1.00\u202fPM.png", "no\u00a0break.txt", "👨\u200d👩\u200d👧.png", "\u0645\u06cc\u200c\u062e.txt"],
)
def test_a_file_name_that_the_unpacker_accepts_does_not_cost_the_skill(tmp_path: Path, file: str) -> None:
    path = write_zip(tmp_path / "p.zip", {"a/SKILL.md": skill("a"), f"a/assets/{file}": "x"})
    assert list(ArchiveSource(path).find_skills().found) == ["a/SKILL.md"]


def test_a_tilde_stands_for_the_home_folder(tmp_path: Path, own_home: Path) -> None:
    write_zip(own_home / "p.zip", {"a/SKILL.md": skill("a")})
    assert [entry.name for entry in Library.from_folder("~/p.zip", cache=False)] == ["a"]


def test_a_folder_called_like_an_archive_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "skills.zip" / "a").mkdir(parents=True)
    (tmp_path / "skills.zip" / "a" / "SKILL.md").write_text(skill("a"))
    assert [entry.name for entry in Library.from_folder(tmp_path / "skills.zip", cache=False)] == ["a"]


@pytest.mark.covers("S2-03")
def test_compound_extensions_stay_whole(tmp_path: Path) -> None:
    files = {"a/SKILL.md": skill("a"), "a/backups/archive.tar.gz": "x", "a/types/index.d.ts": "y"}
    package = ArchiveSource(write_zip(tmp_path / "p.zip", files)).package("a/SKILL.md")
    assert [file.path for file in package.listing().files] == ["SKILL.md", "backups/archive.tar.gz", "types/index.d.ts"]
