"""Looking again: what changed is read, what did not is not."""

from __future__ import annotations

import errno
import gc
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from metier import Change, Library
from metier.errors import SkillNotFound, SkillUnreadable

Write = Callable[..., Path]
Tick = Callable[[Path], None]


def open_library(folder: Path) -> Library:
    return Library.from_folder(folder, cache=False)


@pytest.fixture
def skills(tmp_path: Path, write_skill: Write) -> Path:
    for name in ("a", "b", "c"):
        write_skill(tmp_path / name, description=f"Does {name}.", body=f"Body of {name}.")
    return tmp_path


@pytest.mark.covers("O-26")
@pytest.mark.usefixtures("settled")
def test_nothing_changed_reads_nothing(skills: Path) -> None:
    library = open_library(skills)
    before = library.snapshot
    change = library.refresh()
    assert change == Change()
    assert not change
    assert library.snapshot is before


@pytest.mark.covers("O-26")
@pytest.mark.usefixtures("settled")
def test_one_changed_skill_reads_one_file(skills: Path, write_skill: Write) -> None:
    library = open_library(skills)
    write_skill(skills / "b", description="Does something else.")
    change = library.refresh()
    assert change == Change(changed=("b",), files_read=1)
    assert library.get("b").description == "Does something else."


@pytest.mark.covers("O-26", "Y-23")
@pytest.mark.usefixtures("settled")
def test_an_added_skill_is_seen_at_once(skills: Path, write_skill: Write) -> None:
    library = open_library(skills)
    write_skill(skills / "deeper" / "d")
    assert library.refresh() == Change(added=("d",), files_read=1)
    write_skill(skills / "e")
    assert library.refresh() == Change(added=("e",), files_read=1)


@pytest.mark.covers("Y-25")
@pytest.mark.usefixtures("settled")
def test_a_removed_skill_is_gone_and_nothing_is_read(skills: Path) -> None:
    library = open_library(skills)
    shutil.rmtree(skills / "b")
    assert library.refresh() == Change(removed=("b",))
    assert [entry.name for entry in library] == ["a", "c"]


@pytest.mark.usefixtures("settled")
def test_a_renamed_skill_came_and_went(skills: Path, write_skill: Write) -> None:
    library = open_library(skills)
    write_skill(skills / "b", name="renamed")
    assert library.refresh() == Change(added=("renamed",), removed=("b",), files_read=1)


@pytest.mark.usefixtures("settled")
def test_a_renamed_folder_keeps_the_name(skills: Path) -> None:
    library = open_library(skills)
    (skills / "b").rename(skills / "moved")
    assert library.refresh() == Change(changed=("b",), files_read=1)
    assert library.get("b").folder == "moved"
    assert library.get("moved").name == "b"


@pytest.mark.usefixtures("settled")
def test_two_folders_that_swap_are_both_read_again(skills: Path) -> None:
    library = open_library(skills)
    (skills / "a").rename(skills / "spare")
    (skills / "b").rename(skills / "a")
    (skills / "spare").rename(skills / "b")
    library.refresh()
    assert (library.get("a").folder, library.get("b").folder) == ("b", "a")


@pytest.mark.covers("Y-24", "O-29")
@pytest.mark.usefixtures("settled")
def test_an_edit_of_the_same_size_with_its_time_put_back_is_seen(skills: Path, next_tick: Tick) -> None:
    library = open_library(skills)
    file = skills / "b" / "SKILL.md"
    next_tick(file)
    before = file.stat()
    file.write_text(file.read_text().replace("Does b.", "Does B."))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert library.refresh().changed == ("b",)
    assert library.get("b").description == "Does B."


@pytest.mark.parametrize("edits", [10, pytest.param(30, marks=pytest.mark.slow)])
def test_an_edit_in_the_very_moment_of_the_first_reading_is_seen(
    tmp_path: Path, write_skill: Write, edits: int
) -> None:
    """The time stamps of two edits may be equal; a file just written is compared by content."""
    library = open_library(tmp_path)
    for number in range(10, 10 + edits):
        write_skill(tmp_path / "a", description=f"Version {number}.")
        library.refresh()
        assert library.get("a").description == f"Version {number}."


def test_a_file_just_written_that_stays_the_same_is_no_change(skills: Path) -> None:
    library = open_library(skills)
    assert not library.refresh()


@pytest.mark.usefixtures("settled")
def test_a_touched_file_is_read_but_a_change_only_if_something_says_so(skills: Path, next_tick: Tick) -> None:
    library = open_library(skills)
    next_tick(skills / "a" / "SKILL.md")
    os.utime(skills / "a" / "SKILL.md")
    assert library.refresh().files_read == 1
    assert library.get("a").description == "Does a."


@pytest.mark.covers("Y-26")
@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"  \n\n",
        b"---\n{{{{\n---\nOther body.",
        b"---\nname: a\ndescription: b\n- item\nfoo\n---\nOther body.",
        b"---\nname: a\n---\n",
        b"x" * (2 * 1024 * 1024 + 1),
    ],
    ids=["empty", "blank", "flow", "list", "nothing to load", "too large"],
)
def test_an_edit_that_cannot_be_used_leaves_the_last_good_version_flagged(skills: Path, broken: bytes) -> None:
    library = open_library(skills)
    file = skills / "a" / "SKILL.md"
    good = file.read_bytes()
    file.write_bytes(broken)
    library.refresh()
    entry = library.get("a")
    assert (entry.is_stale, entry.status, entry.description) == (True, "active", "Does a.")
    assert [note.code for note in entry.diagnostics] == ["stale"]
    assert len(library) == 3
    library.refresh()
    assert library.get("a").is_stale
    file.write_bytes(good.replace(b"Does a.", b"Does it again."))
    assert library.refresh().changed == ("a",)
    assert (library.get("a").is_stale, library.get("a").description) == (False, "Does it again.")
    assert library.get("a").diagnostics == ()


@pytest.mark.covers("Y-26")
def test_a_stale_skill_stays_what_it_was_through_several_bad_edits(skills: Path) -> None:
    library = open_library(skills)
    for broken in (b"", b"---\n{{{{\n---\nx", b"\n\n\n"):
        (skills / "a" / "SKILL.md").write_bytes(broken)
        library.refresh()
        assert library.get("a").description == "Does a."
        assert [note.code for note in library.get("a").diagnostics] == ["stale"]


@pytest.mark.covers("Y-26")
@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
def test_a_file_replaced_by_no_file_leaves_the_last_good_version_flagged(skills: Path, kind: str) -> None:
    library = open_library(skills)
    file = skills / "a" / "SKILL.md"
    file.unlink()
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to(skills / "b" / "SKILL.md")
    library.refresh()
    assert (library.get("a").is_stale, library.get("a").description) == (True, "Does a.")


def test_a_skill_that_was_broken_from_the_start_is_loaded_once_it_is_mended(tmp_path: Path, write_skill: Write) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "SKILL.md").write_bytes(b"")
    library = open_library(tmp_path)
    assert [entry.status for entry in library.entries(all=True)] == ["broken"]
    write_skill(tmp_path / "a")
    library.refresh()
    assert [entry.status for entry in library.entries(all=True)] == ["active"]


@pytest.mark.covers("G-18")
@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO, errno.ENOMEM, errno.EACCES])
def test_a_file_that_could_not_be_read_for_a_moment_is_read_at_the_next_look(
    skills: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    cache = tmp_path_factory.mktemp("cache")
    real = os.open
    with monkeypatch.context() as moment:

        def refuse(path: str, *args: int, **options: int) -> int:
            if str(path).endswith("SKILL.md"):
                raise OSError(number, os.strerror(number))
            return real(path, *args, **options)

        moment.setattr(os, "open", refuse)
        library = Library.from_folder(skills, cache=cache)
        assert [entry.status for entry in library.entries(all=True)] == ["broken"] * 3
    assert len(Library.from_folder(skills, cache=cache)) == 3
    library.refresh()
    assert [entry.name for entry in library] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "known",
    [
        True,
        False,
    ],
)
def test_a_file_that_stays_unreadable_is_looked_at_again_but_no_change(
    skills: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """Else a watch would call back at every look, for ever."""
    library = open_library(skills)
    real = os.open

    def refuse(path: str, *args: int, **options: int) -> int:
        if str(path).endswith("a/SKILL.md"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, *args, **options)

    monkeypatch.setattr(os, "open", refuse)
    (skills / "a" / "SKILL.md").write_text("---\nname: a\ndescription: Longer than before.\n---\nBody.")
    if known:
        assert library.refresh().changed == ("a",)
        assert library.get("a").is_stale
    else:
        library = open_library(skills)
        assert [entry.status for entry in library.entries(all=True)] == ["broken", "active", "active"]
    for _ in range(3):
        change = library.refresh()
        assert (change.added, change.changed, change.removed) == ((), (), ())


def test_a_file_dated_in_the_future_is_read_without_waiting(skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that was wrong once must not cost a tenth of a second for each skill at every look."""
    for file in skills.glob("*/SKILL.md"):
        os.utime(file, (4_000_000_000, 4_000_000_000))
    waited: list[float] = []
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 10_000_000_000)
    monkeypatch.setattr(time, "sleep", waited.append)
    library = open_library(skills)
    library.refresh()
    assert len(library) == 3
    assert waited == []


def test_a_file_dated_in_the_future_is_still_compared(skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    file = skills / "a" / "SKILL.md"
    os.utime(file, (4_000_000_000, 4_000_000_000))
    library = open_library(skills)
    file.write_text(file.read_text().replace("Does a.", "Does A."))
    os.utime(file, (4_000_000_000, 4_000_000_000))
    library.refresh()
    assert library.get("a").description == "Does A."


@pytest.mark.covers("S2-01")
def test_a_folder_that_is_removed_empties_the_library_and_fills_it_when_it_is_back(
    tmp_path: Path, write_skill: Write
) -> None:
    write_skill(tmp_path / "skills" / "a")
    library = open_library(tmp_path / "skills")
    (tmp_path / "skills").rename(tmp_path / "away")
    assert library.refresh().removed == ("a",)
    assert len(library) == 0
    (tmp_path / "away").rename(tmp_path / "skills")
    assert library.refresh().added == ("a",)


def test_a_place_that_cannot_be_read_says_so_and_hides_no_other(
    tmp_path: Path, write_skill: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / "one" / "a")
    write_skill(tmp_path / "two" / "b")
    library = Library.from_folder(tmp_path / "one", tmp_path / "two", cache=False)
    real = os.scandir

    def refuse(path: str) -> object:
        if str(path) == str(tmp_path / "one"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    library.refresh()
    assert "b" in library
    assert [finding.diagnostic.code for finding in library.findings()] == ["folder-unreadable"]


@pytest.mark.covers("O-98", "O-25")
def test_a_stronger_skill_that_appears_takes_the_name_over(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "strong" / "other")
    write_skill(tmp_path / "weak" / "deploy", description="Weak.")
    library = Library.from_folder(tmp_path / "strong", tmp_path / "weak", cache=False)
    write_skill(tmp_path / "strong" / "deploy", description="Strong.")
    assert library.refresh().changed == ("deploy",)
    assert library.get("deploy").description == "Strong."
    shutil.rmtree(tmp_path / "strong" / "deploy")
    library.refresh()
    assert library.get("deploy").description == "Weak."


@pytest.mark.covers("Y-06")
def test_no_instructions_are_held_by_the_index(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "plain", body="# Title\n\nUNIQUE-BODY-TEXT plain")
    write_skill(tmp_path / "odd", more="tags: [a]\nmetadata: {x: [1, {y: z}]}\n", body="UNIQUE-BODY-TEXT odd")
    library = open_library(tmp_path)
    library.refresh()
    assert [entry.description for entry in library] == ["Does it.", "Does it."]
    assert not _strings_below(library.snapshot, "UNIQUE-BODY-TEXT")


def _strings_below(root: object, text: str) -> list[str]:
    """Every string that an object leads to and that holds a text."""
    seen: set[int] = set()
    waiting = [root]
    found = []
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type) or callable(thing):
            continue
        seen.add(id(thing))
        if isinstance(thing, str | bytes):
            if text in str(thing):
                found.append(str(thing))
            continue
        waiting.extend(gc.get_referents(thing))
    return found


@pytest.mark.covers("Y-04")
def test_tags_and_requirements_that_are_absent_are_empty(skills: Path) -> None:
    skill = open_library(skills).get("a").skill
    assert (skill.tags, skill.requires) == ((), ())


@pytest.mark.covers("Y-05")
def test_a_folded_description_is_one_paragraph(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "SKILL.md").write_text("---\nname: a\ndescription: >\n  One\n  two\n  three.\n---\nDo.")
    assert open_library(tmp_path).get("a").description == "One two three."


@pytest.mark.covers("Y-07")
def test_a_long_body_is_warned_of_and_still_loads(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "a", body="many words " * 6_000)
    library = open_library(tmp_path)
    assert "body-many-tokens" in [note.code for note in library.get("a").diagnostics]
    assert len(library.document("a").body) > 60_000


@pytest.mark.covers("O-30")
@pytest.mark.parametrize(
    ("lines", "more", "warned"), [(500, "", False), (501, "", True), (501, "legacy-large-file: true\n", False)]
)
def test_more_than_five_hundred_lines_are_warned_of_with_guidance(
    tmp_path: Path, write_skill: Write, lines: int, more: str, warned: bool
) -> None:
    write_skill(tmp_path / "a", body="\n".join(["line"] * lines), more=more)
    library = open_library(tmp_path)
    notes = [note for note in library.get("a").diagnostics if note.code == "body-too-long"]
    assert bool(notes) is warned
    for note in notes:
        assert "500 lines" in note.message
        assert "501 lines" in note.message
        assert "supporting files" in note.hint


@pytest.mark.covers("Y-03", "O-24")
def test_a_missing_name_or_description_is_filled_in_and_mentioned(tmp_path: Path, write_skill: Write) -> None:
    for folder, block in {"nameless": "description: Has one.", "undescribed": "name: undescribed"}.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "SKILL.md").write_text(f"---\n{block}\n---\nFirst paragraph.")
    write_skill(tmp_path / "whole")
    library = open_library(tmp_path)
    assert [(entry.name, entry.description) for entry in library] == [
        ("nameless", "Has one."),
        ("undescribed", "First paragraph."),
        ("whole", "Does it."),
    ]
    assert [note.code for note in library.get("nameless").diagnostics] == ["name-missing"]
    assert [note.code for note in library.get("undescribed").diagnostics] == ["description-missing"]


@pytest.mark.covers("ACC-5")
@pytest.mark.parametrize("broken", [b"", b"---\nname: a\ndescr", b"Do it."], ids=["empty", "cut", "no frontmatter"])
def test_another_process_knows_by_the_index_that_a_file_was_good(
    tmp_path: Path, write_skill: Write, broken: bytes
) -> None:
    """It has no last good text to serve; it does not take half a file for a whole one either."""
    file = write_skill(tmp_path / "skills" / "a", description="Good.")
    library = Library.from_folder(tmp_path / "skills", cache=tmp_path / "cache")
    file.write_bytes(broken)
    library.refresh()
    assert library.get("a").is_stale
    for _ in range(3):
        other = Library.from_folder(tmp_path / "skills", cache=tmp_path / "cache")
        assert (other.get("a").is_stale, other.get("a").description) == (True, "Good.")
        for use in (other.document, other.digest):
            with pytest.raises(SkillUnreadable):
                use("a")
    write_skill(tmp_path / "skills" / "a", description="Better.")
    other = Library.from_folder(tmp_path / "skills", cache=tmp_path / "cache")
    assert (other.get("a").is_stale, other.document("a").skill.description) == (False, "Better.")


@pytest.mark.covers("ACC-5")
def test_a_file_that_was_removed_is_gone_and_not_half_edited(tmp_path: Path, write_skill: Write) -> None:
    file = write_skill(tmp_path / "skills" / "a")
    library = Library.from_folder(tmp_path / "skills", cache=tmp_path / "cache")
    library.document("a")
    file.write_bytes(b"---\nname: a\ndescr")
    library.refresh()
    assert library.document("a").body == "Do it."
    file.unlink()
    with pytest.raises(SkillNotFound):
        library.document("a")
    library.refresh()
    assert "a" not in library
    assert len(Library.from_folder(tmp_path / "skills", cache=tmp_path / "cache")) == 0
