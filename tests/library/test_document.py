"""The instructions of a skill: as they are on disk, at the moment they are asked for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from metier import Library
from metier.errors import InvalidArgument, SkillChanged, SkillNotFound, SkillUnreadable, SourceUnavailable
from metier.library import Place
from metier.source import MemorySource

Write = Callable[..., Path]
Tick = Callable[[Path], None]


@pytest.fixture
def library(tmp_path: Path, write_skill: Write) -> Library:
    write_skill(tmp_path / "a", body="Body one.")
    write_skill(tmp_path / "b", body="Body of b.")
    return Library.from_folder(tmp_path, cache=False)


def count_opens(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    opened: list[str] = []
    real = os.open

    def watching(path: str, *args: int, **options: int) -> int:
        opened.append(str(path))
        return real(path, *args, **options)

    monkeypatch.setattr(os, "open", watching)
    return opened


@pytest.mark.covers("O-16", "S-01", "S-05")
def test_a_document_is_the_skill_and_its_body(library: Library) -> None:
    document = library.document("a")
    assert document.body == "Body one."
    assert document.skill.description == "Does it."
    assert document.body_line == 5


@pytest.mark.covers("O-29", "G-31")
@pytest.mark.usefixtures("settled")
def test_an_unchanged_body_is_read_once(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    first = library.document("a")
    opened = count_opens(monkeypatch)
    assert library.document("a") is first
    assert opened == []


@pytest.mark.covers("O-29", "Y-24")
@pytest.mark.parametrize("body", ["Body two.", "Quite another body.", "B"])
@pytest.mark.parametrize("atomic", [True, False])
def test_an_edited_body_is_served_at_once(
    library: Library, tmp_path: Path, write_skill: Write, body: str, atomic: bool
) -> None:
    library.document("a")
    if atomic:
        os.replace(write_skill(tmp_path / "a", body=body, file="new"), tmp_path / "a" / "SKILL.md")
    else:
        write_skill(tmp_path / "a", body=body)
    assert library.document("a").body == body


@pytest.mark.covers("O-29")
@pytest.mark.usefixtures("settled")
def test_an_edit_of_the_same_size_with_its_time_put_back_is_served_at_once(
    library: Library, tmp_path: Path, next_tick: Tick
) -> None:
    library.document("a")
    file = tmp_path / "a" / "SKILL.md"
    next_tick(file)
    before = file.stat()
    file.write_text(file.read_text().replace("one", "two"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert library.document("a").body == "Body two."


@pytest.mark.parametrize("edits", [10, pytest.param(30, marks=pytest.mark.slow)])
def test_edits_in_quick_succession_are_each_served(
    library: Library, tmp_path: Path, write_skill: Write, edits: int
) -> None:
    for number in range(10, 10 + edits):
        write_skill(tmp_path / "a", body=f"Body {number}.")
        assert library.document("a").body == f"Body {number}."


def test_an_edited_description_is_served_with_the_body_before_any_refresh(
    library: Library, tmp_path: Path, write_skill: Write
) -> None:
    write_skill(tmp_path / "a", description="Does more.")
    assert library.document("a").skill.description == "Does more."


@pytest.mark.covers("O-29")
def test_after_an_override_by_a_higher_layer_the_cached_body_is_not_served(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "strong" / "other")
    write_skill(tmp_path / "weak" / "deploy", body="weak")
    library = Library.from_folder(tmp_path / "strong", tmp_path / "weak", cache=False)
    assert library.document("deploy").body == "weak"
    write_skill(tmp_path / "strong" / "deploy", body="strong")
    library.refresh()
    assert library.document("deploy").body == "strong"
    shutil.rmtree(tmp_path / "strong" / "deploy")
    library.refresh()
    assert library.document("deploy").body == "weak"


@pytest.mark.covers("G-08")
def test_a_file_that_holds_another_skill_by_now_is_an_error(
    library: Library, tmp_path: Path, write_skill: Write
) -> None:
    library.document("a")
    write_skill(tmp_path / "a", name="impostor", body="Evil.")
    with pytest.raises(SkillChanged, match="now holds the skill 'impostor', not 'a'"):
        library.document("a")


@pytest.mark.covers("G-08")
def test_a_folder_replaced_by_another_skills_is_an_error(library: Library, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "b").rename(tmp_path / "a")
    with pytest.raises(SkillChanged):
        library.document("a")


@pytest.mark.covers("Y-25")
@pytest.mark.parametrize("known", [True, False])
def test_a_removed_skill_is_an_error_before_and_after_the_refresh(
    library: Library, tmp_path: Path, known: bool
) -> None:
    if known:
        library.document("a")
    shutil.rmtree(tmp_path / "a")
    with pytest.raises(SkillNotFound, match="is gone"):
        library.document("a")
    library.refresh()
    with pytest.raises(SkillNotFound, match="was not found"):
        library.document("a")


@pytest.mark.covers("G-18")
def test_an_error_is_never_kept(library: Library, tmp_path: Path, write_skill: Write) -> None:
    file = tmp_path / "a" / "SKILL.md"
    file.write_bytes(b"")
    with pytest.raises(SkillUnreadable, match="empty"):
        library.document("a")
    write_skill(tmp_path / "a", body="Mended.")
    assert library.document("a").body == "Mended."


@pytest.mark.covers("Y-26")
@pytest.mark.parametrize(
    "broken",
    [b"", b"---\n{{{{\n---\nOther body.", b"---\nname: a\ndescription: b\n- item\nfoo\n---\nOther body."],
    ids=["empty", "unreadable yaml, no fields", "unreadable yaml"],
)
@pytest.mark.parametrize("refreshed", [False, True])
def test_the_last_good_body_is_served_while_the_file_cannot_be_used(
    library: Library, tmp_path: Path, broken: bytes, refreshed: bool
) -> None:
    library.document("a")
    (tmp_path / "a" / "SKILL.md").write_bytes(broken)
    if refreshed:
        library.refresh()
    assert library.document("a").body == "Body one."


@pytest.mark.covers("O-29")
def test_what_is_kept_can_be_forgotten_for_one_or_for_all(library: Library) -> None:
    first, other = library.document("a"), library.document("b")
    library.invalidate("a")
    assert library.document("a") == first
    library.invalidate()
    assert library.document("b") == other


@pytest.mark.covers("O-29")
@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize(("forgotten", "reads"), [("a", 1), ("b", 0), (None, 1)])
def test_a_forgotten_body_is_read_again(
    library: Library, monkeypatch: pytest.MonkeyPatch, forgotten: str | None, reads: int
) -> None:
    library.document("a")
    library.invalidate(forgotten)
    opened = count_opens(monkeypatch)
    library.document("a")
    assert len(opened) == reads


@pytest.mark.covers("S-04")
def test_a_name_given_with_the_files_is_the_documents_name() -> None:
    source = MemorySource.of({"SKILL.md": "---\nname: own\ndescription: D.\n---\nBody."}, skill_name="given")
    library = Library([Place(layer="project", source=source)], cache=False)
    document = library.document("given")
    assert (document.skill.name, document.body) == ("given", "Body.")
    assert "own" not in library


@pytest.mark.covers("S-04", "ACC-8")
@pytest.mark.parametrize("packed", [False, True])
def test_a_name_given_with_a_folder_or_an_archive_is_the_skills_name(
    tmp_path: Path, write_skill: Write, packed: bool
) -> None:
    write_skill(tmp_path / "own", body="Body.")
    where = shutil.make_archive(str(tmp_path / "own"), "zip", tmp_path / "own") if packed else tmp_path / "own"
    cache = tmp_path / "cache"
    assert [entry.name for entry in Library.from_folder(where, cache=cache)] == ["own"]
    given = Library.from_folder(where, skill_name="given", cache=cache)
    assert [(entry.name, given.document(entry.name).skill.name) for entry in given] == [("given", "given")]
    assert [entry.name for entry in Library.from_folder(where, skill_name="given", cache=cache)] == ["given"]


@pytest.mark.covers("S-04", "ACC-8")
def test_one_name_is_for_one_skill(tmp_path: Path, write_skill: Write) -> None:
    for name in ("one", "two"):
        write_skill(tmp_path / name)
    with pytest.raises(SourceUnavailable, match="has 2 skills"):
        Library.from_folder(tmp_path, skill_name="given")
    for wrong in ("../x", "A b", ""):
        with pytest.raises(InvalidArgument, match="not a valid skill name"):
            Library.from_folder(tmp_path / "one", skill_name=wrong)


@pytest.mark.covers("O-31", "G-18")
def test_many_threads_that_ask_at_once_get_the_same_body(library: Library) -> None:
    with ThreadPoolExecutor(16) as pool:
        bodies = list(pool.map(lambda _: library.document("a").body, range(200)))
    assert set(bodies) == {"Body one."}


def test_more_bodies_than_are_kept_are_all_served_right(tmp_path: Path, write_skill: Write) -> None:
    for number in range(140):
        write_skill(tmp_path / f"s{number}", body=f"Body {number}.")
    library = Library.from_folder(tmp_path, cache=False)
    for _ in range(2):
        for number in range(140):
            assert library.document(f"s{number}").body == f"Body {number}."


@pytest.mark.covers("G-06", "G-39")
def test_a_digest_follows_every_file_of_the_package(library: Library, tmp_path: Path, write_skill: Write) -> None:
    first = library.digest("a")
    assert first.startswith("sha256:")
    assert library.digest("a") == first
    (tmp_path / "a" / "notes.txt").write_text("x")
    second = library.digest("a")
    (tmp_path / "a" / "notes.txt").write_text("y")
    third = library.digest("a")
    (tmp_path / "a" / "notes.txt").chmod(0o755)
    assert len({first, second, third, library.digest("a")}) == 4
    (tmp_path / "a" / "notes.txt").unlink()
    assert library.digest("a") == first
