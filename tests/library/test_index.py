"""What a person or a model may call a skill."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from metier import Library
from metier.errors import InvalidArgument, MetierError, SkillNotFound, SkillUnreadable
from metier.hints import for_person

pytestmark = pytest.mark.usefixtures("quiet_files")

Write = Callable[..., Path]


@pytest.fixture
def library(tmp_path: Path, write_skill: Write) -> Library:
    write_skill(tmp_path / "deploy")
    write_skill(tmp_path / "python-dev")
    write_skill(tmp_path / "forms", name="pdf-forms")
    write_skill(tmp_path / "My Folder", name="noisy", description="Folder with a blank.")
    write_skill(tmp_path / "spoken", name='"My Skill (v2)"')
    write_skill(tmp_path / "x" / "shared", name="left")
    write_skill(tmp_path / "y" / "shared", name="right")
    write_skill(tmp_path / "noisy", name="quiet")
    write_skill(tmp_path / "技能", name="技能")
    return Library.from_folder(tmp_path, cache=False)


@pytest.mark.covers("Y-02", "O-28", "S-07")
@pytest.mark.each(
    ("called", "name"),
    [
        ("deploy", "deploy"),
        ("pdf-forms", "pdf-forms"),
        ("forms", "pdf-forms"),
        ("My Folder", "noisy"),
        ("my folder", "noisy"),
        ("DEPLOY", "deploy"),
        ("PYTHON-DEV", "python-dev"),
        ("Python_Dev", "python-dev"),
        ("python dev", "python-dev"),
        ("Forms", "pdf-forms"),
        ("my-skill-v2", "my-skill-v2"),
        ("My Skill (v2)", "my-skill-v2"),
        ("  deploy\n", "deploy"),
        ("技能", "技能"),
    ],
)
def test_a_skill_answers_to(library: Library, called: str, name: str) -> None:
    assert library.get(called).name == name
    assert called in library


def test_a_name_outranks_a_folder_of_that_name(library: Library) -> None:
    assert library.get("noisy").folder == "My Folder"
    assert library.get("quiet").folder == "noisy"


def test_a_folder_name_that_two_skills_share_is_nobodys_alias(library: Library) -> None:
    with pytest.raises(SkillNotFound):
        library.get("shared")


@pytest.mark.covers("Y-21", "O-28")
@pytest.mark.each(
    "called",
    [
        "..",
        "../deploy",
        "..\\deploy",
        "./deploy",
        "/",
        "/deploy",
        "deploy/",
        "x/../deploy",
        "x/shared",
        "deploy/SKILL.md",
        "deploy\0",
        "de\nploy",
        "nope",
        "deploy@nowhere",
        "deploy@",
        "../deploy@project",
        "@",
        "deploy@project@project",
        "\ud800",
    ],
)
def test_nothing_answers_to(library: Library, called: str) -> None:
    with pytest.raises(SkillNotFound):
        library.get(called)
    assert called not in library


@pytest.mark.covers("Y-21")
@pytest.mark.parametrize("called", ["", " ", "\n\t"])
def test_an_empty_name_is_no_name(library: Library, called: str) -> None:
    with pytest.raises(InvalidArgument):
        library.get(called)
    assert called not in library


@pytest.mark.parametrize("called", [None, 5, b"deploy", ("deploy",)])
def test_what_is_no_text_is_in_no_library(library: Library, called: object) -> None:
    assert called not in library


@pytest.mark.covers("Y-18", "Y-21")
@pytest.mark.each("operation", ["get", "document", "files", "package", "digest", "invalidate"])
@pytest.mark.parametrize("called", ["..", "../x", "/", "nope"])
def test_every_operation_refuses_an_unknown_name_alike(library: Library, operation: str, called: str) -> None:
    with pytest.raises(SkillNotFound):
        getattr(library, operation)(called)
    with pytest.raises(SkillNotFound):
        library.read(called, "SKILL.md")


@pytest.mark.covers("Y-18")
def test_the_error_names_what_was_asked_and_what_to_do(library: Library) -> None:
    with pytest.raises(SkillNotFound) as caught:
        library.get("zzz")
    error = caught.value
    assert str(error) == "Skill 'zzz' was not found."
    assert error.code == "skill-not-found"
    assert "`metier list` shows all 9" in for_person(error.hint)
    assert error.context["name"] == "zzz"


@pytest.mark.parametrize(
    ("mistyped", "meant"),
    [("deplyo", "deploy"), ("Deplo", "deploy"), ("pdf_form", "pdf-forms"), ("deplyo@project", "deploy")],
)
def test_a_mistyped_name_is_answered_with_a_suggestion(library: Library, mistyped: str, meant: str) -> None:
    with pytest.raises(SkillNotFound, match=f"Did you mean '{meant}'"):
        library.get(mistyped)


def test_an_empty_library_says_where_to_look() -> None:
    with pytest.raises(SkillNotFound) as caught:
        Library([], cache=False).get("deploy")
    assert "There are no skills here" in caught.value.hint


@pytest.mark.each(
    "called",
    ["x" * 100_000, "../" * 33_000, "@" * 100_000, "d@" * 50_000, "é" * 100_000, "\n" * 99_999 + "x", " " * 100_000],
    ids=["letters", "climbing", "ats", "pairs", "accents", "line feeds", "blanks"],
)
def test_a_name_of_a_hundred_kilobytes_is_answered_at_once_and_briefly(library: Library, called: str) -> None:
    begin = time.process_time()
    with pytest.raises(MetierError) as caught:
        library.get(called)
    assert time.process_time() - begin < 1
    assert len(caught.value.message) < 500


def test_a_name_from_a_stranger_is_shown_without_control_characters(library: Library) -> None:
    with pytest.raises(SkillNotFound) as caught:
        library.get("evil\x1b[2J\nname\u202e")
    assert caught.value.message.isprintable()


@pytest.mark.covers("Y-02")
def test_a_name_that_differs_from_the_folder_is_mentioned(library: Library) -> None:
    assert "name-differs-from-folder" in [note.code for note in library.get("forms").diagnostics]


@pytest.mark.covers("S2-03", "G-05")
@pytest.mark.parametrize("folder", ["", " ", "\n", "a\0b", "missing"])
def test_a_folder_that_cannot_be_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MetierError):
        Library.from_folder(folder, cache=False)


@pytest.mark.covers("S2-03", "G-05", "S2-01")
def test_a_file_is_no_folder_of_skills(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(MetierError, match="is not a folder"):
        Library.from_folder(tmp_path / "file", cache=False)


@pytest.mark.covers("S2-03")
def test_no_folder_at_all_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="No folder"):
        Library.from_folder(cache=False)


def test_a_broken_skill_is_said_to_be_broken_and_not_to_be_absent(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "SKILL.md").write_bytes(b"")
    library = Library.from_folder(tmp_path, cache=False)
    with pytest.raises(SkillUnreadable, match="The file is empty"):
        library.get("broken")
    assert "broken" not in library


def test_one_folder_named_twice_counts_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "SKILL.md").write_text("---\nname: a\ndescription: b\n---\nDo.\n")
    library = Library.from_folder(tmp_path, tmp_path / "a" / "..", cache=False)
    assert len(library.entries(all=True)) == 1


def test_a_source_that_does_not_have_the_skill_is_answered_with_those_that_do(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder / "skills" / "deploy").mkdir(parents=True)
        (tmp_path / folder / "skills" / "deploy" / "SKILL.md").write_text(
            "---\nname: deploy\ndescription: b\n---\nDo.\n"
        )
    library = Library.from_folder(tmp_path / "one" / "skills", tmp_path / "two" / "skills", cache=False)
    with pytest.raises(SkillNotFound) as caught:
        library.get("deploy@nowhere")
    assert caught.value.hint == "It is there as deploy@skills, deploy@skills-2."
    assert library.get("deploy@skills-2").location.startswith(str(tmp_path / "two"))


@pytest.fixture
def crowded(tmp_path: Path, write_skill: Write) -> Library:
    """Sources that are called alike, with a broken skill in the first, and two skills of one name in one source."""
    for number, root in enumerate(("one/project", "two/project", "three/project")):
        write_skill(tmp_path / root / "x", description=f"Number {number}.")
        write_skill(tmp_path / root / "deep" / "again", name="x", description=f"Number {number}, again.")
    write_skill(tmp_path / "one/project/broken", name="broken")
    (tmp_path / "one/project/broken/SKILL.md").write_bytes(b"")
    write_skill(tmp_path / "two/project/broken", name="broken", description="A good one.")
    folders = (tmp_path / root for root in ("one/project", "two/project", "three/project"))
    return Library.from_folder(*folders, cache=False)


@pytest.mark.covers("ACC-3")
def test_every_skill_that_is_listed_is_reached_by_its_reference(crowded: Library) -> None:
    listed = crowded.entries(all=True)
    assert len({entry.reference for entry in listed}) == len(listed) == 8
    for entry in listed:
        if entry.is_broken:
            with pytest.raises(SkillUnreadable, match="is empty") as refused:
                crowded.get(entry.reference)
            assert refused.value.context["location"] == entry.location
        else:
            assert crowded.get(entry.reference).location == entry.location


@pytest.mark.covers("ACC-3")
def test_a_source_whose_skill_is_broken_is_not_taken_for_the_layer_of_its_name(crowded: Library) -> None:
    """`project` is a source and a layer: the good one of `project-2` is not what was asked for."""
    with pytest.raises(SkillUnreadable):
        crowded.get("broken@project")
    assert crowded.get("broken@project-2").description == "A good one."


@pytest.mark.covers("ACC-3")
def test_the_hint_names_all_that_can_be_reached(crowded: Library) -> None:
    with pytest.raises(SkillNotFound) as refused:
        crowded.get("x@elsewhere")
    for entry in crowded.entries(all=True):
        assert entry.name != "x" or entry.reference in str(refused.value.hint)
