"""The contract that every kind of source keeps: a new kind is one more case here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest

from metier import Library, Place
from metier.skill import MemoryPackage
from metier.source import ArchiveSource, FolderSource, MemorySource, Source, open_source
from metier.source.source import SOURCE_KINDS

TEXT = "---\nname: greet\ndescription: Greets.\n---\nSay hello.\n"


def folder(tmp_path: Path) -> Source:
    (tmp_path / "skills" / "greet").mkdir(parents=True)
    (tmp_path / "skills" / "greet" / "SKILL.md").write_text(TEXT)
    return FolderSource(tmp_path / "skills")


def archive(tmp_path: Path) -> Source:
    with ZipFile(tmp_path / "skills.zip", "w") as file:
        file.writestr("greet/SKILL.md", TEXT)
    return ArchiveSource(tmp_path / "skills.zip")


def memory(tmp_path: Path) -> Source:
    return MemorySource({"greet": MemoryPackage({"SKILL.md": TEXT})})


KINDS: dict[str, Callable[[Path], Source]] = {"folder": folder, "archive": archive, "memory": memory}


@pytest.fixture(params=KINDS)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    return KINDS[request.param](tmp_path)


def test_it_finds_its_skill_under_one_key(source: Source) -> None:
    assert list(source.find_skills().found) == ["greet/SKILL.md"]
    assert source.folder("greet/SKILL.md") == "greet"
    assert source.name
    assert source.location("greet/SKILL.md").endswith("greet/SKILL.md")


def test_what_it_reads_is_what_its_package_holds(source: Source) -> None:
    data, _ = source.read("greet/SKILL.md")
    assert data == source.package("greet/SKILL.md").read("SKILL.md") == TEXT.encode()


def test_a_skill_that_is_not_there_has_no_identity(source: Source) -> None:
    assert source.identity("greet/SKILL.md") == source.find_skills().found["greet/SKILL.md"]
    assert source.identity("other/SKILL.md") is None


def test_a_library_serves_its_skill(source: Source) -> None:
    library = Library([Place(layer="project", source=source)], cache=False)
    assert library.get("greet").description == "Greets."
    assert library.document(f"greet@{source.name}").body == "Say hello."
    assert [result.name for result in library.search("greets")] == ["greet"]


def test_every_kind_in_the_table_has_a_case_here() -> None:
    assert {kind.name for kind in SOURCE_KINDS} <= KINDS.keys()


@pytest.mark.parametrize("kind", ["folder", "archive"])
def test_a_location_opens_the_kind_that_it_names(kind: str, tmp_path: Path) -> None:
    made = KINDS[kind](tmp_path)
    location = tmp_path / ("skills" if kind == "folder" else "skills.zip")
    assert type(open_source(location)) is type(made)
