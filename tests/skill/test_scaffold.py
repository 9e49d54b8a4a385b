"""A new skill is valid from its first second."""

from __future__ import annotations

from pathlib import Path

import pytest

from metier.errors import InvalidArgument, MetierError, SkillExists, SourceUnavailable
from metier.skill import FolderPackage, parse
from metier.skill.document import new_skill
from metier.skill.validate import check


@pytest.mark.parametrize(
    "description",
    [
        None,
        "Fill forms. Use when: asked.",
        'It\'s "quoted" # not a comment',
        "- dash",
        "@x %y &z *w !v |u >-"[:16].replace(">", ""),
        "技能 😀",
        "x" * 1_024,
        "two\nlines\tand  blanks",
        "{braces} {0} {name}",
    ],
)
def test_a_new_skill_is_valid_under_the_strictest_rules(tmp_path: Path, description: str | None) -> None:
    file = new_skill("my-skill", tmp_path, description=description)
    assert file == tmp_path / "my-skill" / "SKILL.md"
    package = FolderPackage(file.parent)
    document, found = check(file.read_bytes(), package, folder="my-skill", strict=True, portable=True)
    expected = [] if description is not None else ["description-placeholder"]
    assert [note.code for note in found] == expected
    assert [note.code for note in check(file.read_bytes(), package, folder="my-skill")[1]] == expected
    assert document.skill.name == "my-skill"
    if description is not None:
        assert document.skill.description == " ".join(description.split())


@pytest.mark.each("name", ["", "My Skill", "../x", "a/b", "a--b", "x" * 65, "a\n", "\0", ".."])
def test_an_invalid_name_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        new_skill(name, tmp_path / "inner")
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_the_refusal_of_a_name_suggests_a_valid_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument) as caught:
        new_skill("My Skill", tmp_path)
    assert "my-skill" in caught.value.hint


@pytest.mark.each("description", ["   ", "x" * 1_025, "a <b>", "evil \x1b[2J", "zero\u200bwidth", "nul\0"])
def test_a_description_that_no_upload_would_take_is_refused(tmp_path: Path, description: str) -> None:
    with pytest.raises(InvalidArgument):
        new_skill("good", tmp_path, description=description)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_ever_overwritten(tmp_path: Path) -> None:
    file = new_skill("mine", tmp_path)
    file.write_text("precious")
    with pytest.raises(SkillExists):
        new_skill("mine", tmp_path)
    assert file.read_text() == "precious"


def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "mine").symlink_to(outside)
    with pytest.raises(MetierError):
        new_skill("mine", tmp_path / "in")
    assert list(outside.iterdir()) == []


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SourceUnavailable):
        new_skill("mine", tmp_path / "file")


def test_a_new_skill_loads_without_a_word(tmp_path: Path) -> None:
    file = new_skill("quiet", tmp_path)
    assert parse(file.read_bytes(), folder="quiet").skill.diagnostics == ()
