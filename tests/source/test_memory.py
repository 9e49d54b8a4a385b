"""Skills that a program brings along."""

from __future__ import annotations

import pytest

from metier.errors import FileMissing, FileRefused, InvalidArgument, SkillUnreadable
from metier.skill import MemoryFile
from metier.source import MemorySource

TEXT = "---\nname: own-name\ndescription: Does it.\n---\nDo it.\n"


@pytest.mark.covers("S-04", "S-06")
def test_skills_are_added_one_after_the_other() -> None:
    source = MemorySource.of({"SKILL.md": TEXT}).add({"SKILL.md": TEXT}).add({"SKILL.md": TEXT})
    assert list(source.find_skills().found) == ["skill-1/SKILL.md", "skill-2/SKILL.md", "skill-3/SKILL.md"]


@pytest.mark.covers("S-04")
def test_a_name_given_with_the_files_is_the_skills_name() -> None:
    source = MemorySource.of({"SKILL.md": TEXT}, skill_name="given")
    assert list(source.find_skills().found) == ["given/SKILL.md"]
    assert source.forced_name("given/SKILL.md") == "given"


def test_without_a_given_name_none_is_forced() -> None:
    assert MemorySource.of({"SKILL.md": TEXT}).forced_name("skill-1/SKILL.md") is None


def test_a_skill_may_be_given_the_name_that_a_nameless_one_would_get() -> None:
    source = MemorySource.of({"SKILL.md": TEXT}, skill_name="skill-2").add({"SKILL.md": TEXT})
    assert len(source.find_skills().found) == 2


@pytest.mark.covers("S-08")
@pytest.mark.each("file", ["SKILL.md", "skill.md", "Skill.MD"])
def test_the_skill_file_is_matched_in_any_case(file: str) -> None:
    source = MemorySource.of({file: TEXT})
    assert source.read(f"skill-1/{file}")[0] == TEXT.encode()


def test_the_exact_name_wins_among_several_cases() -> None:
    source = MemorySource.of({"SKILL.MD": "wrong", "SKILL.md": TEXT, "skill.md": "wrong"})
    assert list(source.find_skills().found) == ["skill-1/SKILL.md"]


@pytest.mark.covers("S-08")
def test_backslashes_in_paths_are_slashes() -> None:
    source = MemorySource.of({"SKILL.md": TEXT, "references\\deep\\api.md": "API"})
    assert source.package("skill-1/SKILL.md").read("references/deep/api.md") == b"API"


@pytest.mark.covers("S-05", "S2-03")
@pytest.mark.each("files", [{}, {"README.md": TEXT}, {"inner/SKILL.md": TEXT}])
def test_a_skill_without_a_skill_file_is_refused(files: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument, match=r"SKILL\.md"):
        MemorySource.of(files)


@pytest.mark.covers("S2-03")
@pytest.mark.each("name", ["", " ", "Upper", "a b", "../up", "a/b", "-a", "a--b", "x" * 65])
def test_an_invalid_given_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="not a valid skill name"):
        MemorySource.of({"SKILL.md": TEXT}, skill_name=name)


def test_the_same_name_twice_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="already"):
        MemorySource.of({"SKILL.md": TEXT}, skill_name="a").add({"SKILL.md": TEXT}, skill_name="a")


@pytest.mark.covers("S-06")
@pytest.mark.each("path", ["../up.txt", "/etc/passwd", "a/../../b", "C:\\x", "", "\0"])
def test_a_path_that_leaves_the_skill_is_refused_when_it_is_added(path: str) -> None:
    with pytest.raises(FileRefused):
        MemorySource.of({"SKILL.md": TEXT, path: "x"})


def test_two_spellings_of_one_path_are_refused() -> None:
    with pytest.raises(FileRefused, match="twice"):
        MemorySource.of({"SKILL.md": TEXT, "a/b.txt": "1", "a\\b.txt": "2"})


def test_the_identity_changes_with_the_content_only() -> None:
    one, same, other = (MemorySource.of({"SKILL.md": text}) for text in (TEXT, TEXT, TEXT.replace("Do", "Go")))
    key = "skill-1/SKILL.md"
    assert one.identity(key) == same.identity(key) == one.find_skills().found[key] == one.read(key)[1]
    assert one.identity(key) != other.identity(key)


def test_what_is_not_there_has_no_identity_and_cannot_be_read() -> None:
    source = MemorySource({})
    assert source.identity("nope/SKILL.md") is None
    with pytest.raises(SkillUnreadable):
        source.read("nope/SKILL.md")


def test_executable_files_stay_executable() -> None:
    source = MemorySource.of({"SKILL.md": TEXT, "scripts/run.sh": MemoryFile(b"#!/bin/sh\n", executable=True)})
    listing = source.package("skill-1/SKILL.md").listing()
    assert [(file.path, file.kind, file.executable) for file in listing.files] == [
        ("SKILL.md", "skill", False),
        ("scripts/run.sh", "script", True),
    ]


def test_a_missing_file_and_a_folder_are_told_apart() -> None:
    package = MemorySource.of({"SKILL.md": TEXT, "docs/a.md": "A"}).package("skill-1/SKILL.md")
    with pytest.raises(FileMissing):
        package.read("docs/b.md")
    with pytest.raises(FileRefused, match="folder"):
        package.read("docs")


def test_the_location_names_the_source() -> None:
    assert MemorySource.of({"SKILL.md": TEXT}, name="acme").location("skill-1/SKILL.md") == "acme:skill-1/SKILL.md"


def test_memory_is_not_worth_a_cache() -> None:
    assert MemorySource({}).cache_key() is None
