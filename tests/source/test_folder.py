"""Which skills a folder holds, whatever lies in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from metier.errors import FileRefused, SourceUnavailable
from metier.source import FolderSource, FoundSkills

Write = Callable[..., Path]


def codes(scan: FoundSkills) -> list[str]:
    return [finding.diagnostic.code for finding in scan.findings]


def found(root: Path, **options: object) -> list[str]:
    return sorted(FolderSource(root, **options).find_skills().found)  # type: ignore[arg-type]


@pytest.mark.covers("Y-01", "O-23")
def test_every_folder_with_a_skill_file_is_found_and_nothing_else(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "a")
    write_skill(tmp_path / "b")
    (tmp_path / "c").mkdir()
    (tmp_path / "d.txt").write_text("no skill")
    assert found(tmp_path) == ["a/SKILL.md", "b/SKILL.md"]


def test_the_search_goes_six_folders_deep_and_says_where_it_stopped(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "1/2/3/4/5/six")
    write_skill(tmp_path / "1/2/3/4/5/6/seven")
    scan = FolderSource(tmp_path).find_skills()
    assert list(scan.found) == ["1/2/3/4/5/six/SKILL.md"]
    assert [(finding.where, finding.diagnostic.code) for finding in scan.findings] == [
        (str(tmp_path / "1/2/3/4/5/6"), "scan-limit")
    ]


def test_a_deep_folder_without_folders_is_no_reason_to_mention_the_limit(tmp_path: Path) -> None:
    (tmp_path / "1/2/3/4/5/6").mkdir(parents=True)
    assert codes(FolderSource(tmp_path).find_skills()) == []


def test_the_search_ends_after_two_thousand_folders_without_a_skill_and_says_so(tmp_path: Path) -> None:
    for number in range(2_010):
        (tmp_path / f"{number:04d}").mkdir()
    scan = FolderSource(tmp_path).find_skills()
    assert len(scan.folders) == 2_001  # and the root
    assert codes(scan) == ["scan-limit"]
    assert "2,000 folders" in scan.findings[0].diagnostic.message


@pytest.mark.slow
def test_more_than_two_thousand_folders_with_skills_in_them_are_all_searched(tmp_path: Path) -> None:
    for number in range(2_010):
        (tmp_path / f"group-{number:04d}" / "a").mkdir(parents=True)
        (tmp_path / f"group-{number:04d}" / "a" / "SKILL.md").touch()
    scan = FolderSource(tmp_path).find_skills()
    assert len(scan.found) == 2_010
    assert not scan.findings


@pytest.mark.slow
def test_more_than_two_thousand_skills_in_one_folder_are_all_found(tmp_path: Path) -> None:
    for number in range(2_050):
        (tmp_path / f"s{number:04d}").mkdir()
        (tmp_path / f"s{number:04d}" / "SKILL.md").touch()
    scan = FolderSource(tmp_path).find_skills()
    assert len(scan.found) == 2_050
    assert not scan.findings


@pytest.mark.parametrize("name", [".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv"])
def test_folders_of_tools_are_never_searched(tmp_path: Path, write_skill: Write, name: str) -> None:
    write_skill(tmp_path / name / "inner")
    write_skill(tmp_path / name, name="outer")
    assert found(tmp_path) == []


@pytest.mark.parametrize("name", ["build", "dist"])
def test_a_skill_may_be_called_like_a_folder_of_products(tmp_path: Path, write_skill: Write, name: str) -> None:
    write_skill(tmp_path / name)
    assert found(tmp_path) == [f"{name}/SKILL.md"]


@pytest.mark.parametrize("name", ["build", "dist"])
def test_products_of_a_build_are_not_searched(tmp_path: Path, write_skill: Write, name: str) -> None:
    write_skill(tmp_path / name / "copy")
    assert found(tmp_path) == []


@pytest.mark.covers("S-08")
@pytest.mark.parametrize("file", ["skill.md", "Skill.md", "SKILL.MD"])
def test_a_skill_file_is_found_in_any_case(tmp_path: Path, write_skill: Write, file: str) -> None:
    write_skill(tmp_path / "a", file=file)
    assert found(tmp_path) == [f"a/{file}"]


def test_the_exact_name_wins_among_several_cases(tmp_path: Path, write_skill: Write) -> None:
    for file in ("SKILL.MD", "SKILL.md", "Skill.md", "skill.md"):
        write_skill(tmp_path / "a", file=file)
    assert found(tmp_path) == ["a/SKILL.md"]


def test_what_lies_inside_a_skill_is_its_own(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "outer")
    write_skill(tmp_path / "outer" / "examples" / "inner")
    assert found(tmp_path) == ["outer/SKILL.md"]


@pytest.mark.covers("S-01")
def test_a_folder_that_somebody_names_may_itself_be_the_skill(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "alone")
    source = FolderSource(tmp_path / "alone")
    assert list(source.find_skills().found) == ["SKILL.md"]
    assert source.folder("SKILL.md") == "alone"
    assert source.location("SKILL.md") == str(tmp_path / "alone" / "SKILL.md")


@pytest.mark.covers("O-23")
def test_a_skill_file_in_a_layer_folder_itself_is_left_out_with_a_word(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path, name="stray")
    write_skill(tmp_path / "a")
    scan = FolderSource(tmp_path, whole_root=False).find_skills()
    assert list(scan.found) == ["a/SKILL.md"]
    assert codes(scan) == ["root-skill-ignored"]


def test_a_linked_skill_folder_is_followed(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "elsewhere" / "a")
    root = tmp_path / "skills"
    root.mkdir()
    (root / "linked").symlink_to(tmp_path / "elsewhere" / "a")
    assert found(root) == ["linked/SKILL.md"]


def test_a_linked_folder_of_skills_is_searched(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "elsewhere" / "deep" / "a")
    root = tmp_path / "skills"
    root.mkdir()
    (root / "linked").symlink_to(tmp_path / "elsewhere")
    assert found(root) == ["linked/deep/a/SKILL.md"]


@pytest.mark.parametrize("file", ["SKILL.md", "skill.md"])
@pytest.mark.parametrize("link", ["0-before", "z-after"])
def test_a_link_to_a_skill_in_the_same_tree_is_no_second_skill(
    tmp_path: Path, write_skill: Write, link: str, file: str
) -> None:
    write_skill(tmp_path / "a", file=file)
    (tmp_path / link).symlink_to(tmp_path / "a")
    scan = FolderSource(tmp_path).find_skills()
    assert list(scan.found) == [f"a/{file}"]
    assert codes(scan) == ["symlink-duplicate"]


@pytest.mark.parametrize("link", ["0-before", "z-after"])
def test_a_link_to_a_skill_further_down_is_no_second_skill(tmp_path: Path, write_skill: Write, link: str) -> None:
    write_skill(tmp_path / "group" / "a")
    (tmp_path / link).symlink_to(tmp_path / "group" / "a")
    assert found(tmp_path) == ["group/a/SKILL.md"]


def test_two_links_to_one_skill_count_once(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "elsewhere" / "a")
    root = tmp_path / "skills"
    root.mkdir()
    for name in ("one", "two"):
        (root / name).symlink_to(tmp_path / "elsewhere" / "a")
    scan = FolderSource(root).find_skills()
    assert list(scan.found) == ["one/SKILL.md"]
    assert codes(scan) == ["symlink-duplicate"]


def test_a_skill_reached_by_two_ways_of_links_counts_once(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "elsewhere" / "a")
    root = tmp_path / "skills"
    root.mkdir()
    (root / "all").symlink_to(tmp_path / "elsewhere")
    (root / "one").symlink_to(tmp_path / "elsewhere" / "a")
    assert len(found(root)) == 1


@pytest.mark.parametrize("target", [".", "..", "loop/..", "other"])
def test_links_in_circles_end(tmp_path: Path, write_skill: Write, target: str) -> None:
    root = tmp_path / "skills"
    write_skill(root / "a")
    (root / "loop").symlink_to(target)
    (root / "other").symlink_to("loop")
    assert found(root) == ["a/SKILL.md"]


def test_folders_that_link_to_each_other_are_each_searched_once(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "x" / "a")
    write_skill(tmp_path / "y" / "b")
    (tmp_path / "x" / "to-y").symlink_to(tmp_path / "y")
    (tmp_path / "y" / "to-x").symlink_to(tmp_path / "x")
    assert found(tmp_path / "x") == ["a/SKILL.md", "to-y/b/SKILL.md"]


def test_a_broken_link_is_mentioned_and_hides_nothing(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "a")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    scan = FolderSource(tmp_path).find_skills()
    assert list(scan.found) == ["a/SKILL.md"]
    assert codes(scan) == ["symlink-broken"]


def test_a_link_to_a_file_is_no_folder_and_no_problem(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "link").symlink_to("notes.txt")
    assert FolderSource(tmp_path).find_skills() == FoundSkills({}, (), (str(tmp_path),))


def test_a_contained_source_refuses_links_that_lead_out(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "outside" / "secret")
    root = tmp_path / "project" / "skills"
    write_skill(root / "a")
    (root / "skill").symlink_to(tmp_path / "outside" / "secret")
    (root / "tree").symlink_to(tmp_path / "outside")
    scan = FolderSource(root, contain=tmp_path / "project").find_skills()
    assert list(scan.found) == ["a/SKILL.md"]
    assert codes(scan) == ["symlink-escape", "symlink-escape"]


def test_a_contained_source_follows_links_that_stay_inside(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "project" / "shared" / "a")
    root = tmp_path / "project" / "skills"
    root.mkdir()
    (root / "linked").symlink_to("../shared/a")
    assert found(root, contain=tmp_path / "project") == ["linked/SKILL.md"]


def test_a_folder_whose_name_merely_begins_like_the_container_is_outside(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "project-two" / "a")
    root = tmp_path / "project" / "skills"
    root.mkdir(parents=True)
    (root / "linked").symlink_to(tmp_path / "project-two" / "a")
    assert found(root, contain=tmp_path / "project") == []


@pytest.mark.parametrize("link", [".claude", ".claude/skills"])
def test_a_contained_source_does_not_enter_a_root_that_is_itself_a_way_out(
    tmp_path: Path, write_skill: Write, link: str
) -> None:
    write_skill(tmp_path / "outside" / "skills" / "secret")
    project = tmp_path / "project"
    (project / link).parent.mkdir(parents=True)
    (project / link).symlink_to(tmp_path / "outside" / ("skills" if link.endswith("skills") else ""))
    scan = FolderSource(project / ".claude" / "skills", whole_root=False, contain=project).find_skills()
    assert not scan.found
    assert codes(scan) == ["symlink-escape"]


def test_an_unreadable_folder_is_mentioned_and_hides_nothing(
    tmp_path: Path, write_skill: Write, unprivileged: None
) -> None:
    write_skill(tmp_path / "a")
    (tmp_path / "closed").mkdir(mode=0)
    scan = FolderSource(tmp_path).find_skills()
    assert list(scan.found) == ["a/SKILL.md"]
    assert codes(scan) == ["folder-unreadable"]


@pytest.mark.parametrize("whole_root", [True, False])
def test_an_unreadable_root_is_an_unavailable_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole_root: bool
) -> None:
    def refuse(path: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(SourceUnavailable, match="Permission denied"):
        FolderSource(tmp_path, whole_root=whole_root).find_skills()


class Interfering:
    """`os.scandir`, with something happening right after one folder was first listed; its list stays what it was."""

    def __init__(self, folder: Path, happening: Callable[[], object]) -> None:
        self._folder = str(folder)
        self._happening = happening
        self._entries: list[os.DirEntry[str]] | None = None
        self._scandir = os.scandir

    def __call__(self, path: str) -> Iterator[os.DirEntry[str]]:
        if str(path) != self._folder:
            return self._scandir(path)
        if self._entries is None:
            with self._scandir(path) as listed:
                self._entries = list(listed)
            self._happening()
        return _Listed(self._entries)


class _Listed:
    def __init__(self, entries: list[os.DirEntry[str]]) -> None:
        self._entries = iter(entries)

    def __enter__(self) -> _Listed:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __iter__(self) -> Iterator[os.DirEntry[str]]:
        return self._entries

    def __next__(self) -> os.DirEntry[str]:
        return next(self._entries)


@pytest.mark.covers("S2-01")
@pytest.mark.parametrize("victim", ["skill", "group"])
def test_a_folder_that_vanishes_meanwhile_is_skipped(
    tmp_path: Path, write_skill: Write, monkeypatch: pytest.MonkeyPatch, victim: str
) -> None:
    write_skill(tmp_path / "a")
    write_skill(tmp_path / "skill")
    write_skill(tmp_path / "group" / "b")
    source = FolderSource(tmp_path, whole_root=False)
    monkeypatch.setattr(os, "scandir", Interfering(tmp_path, lambda: shutil.rmtree(tmp_path / victim)))
    scan = source.find_skills()
    assert "a/SKILL.md" in scan.found
    assert not [key for key in scan.found if key.startswith(victim)]
    assert codes(scan) == []


def test_a_folder_that_becomes_a_file_meanwhile_hides_nothing(
    tmp_path: Path, write_skill: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / "a")
    (tmp_path / "group").mkdir()

    def become_a_file() -> None:
        (tmp_path / "group").rmdir()
        (tmp_path / "group").write_text("now a file")

    monkeypatch.setattr(os, "scandir", Interfering(tmp_path, become_a_file))
    assert list(FolderSource(tmp_path, whole_root=False).find_skills().found) == ["a/SKILL.md"]


def test_a_root_skill_that_vanishes_meanwhile_leaves_an_empty_folder(
    tmp_path: Path, write_skill: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_skill(tmp_path, name="alone")
    monkeypatch.setattr(os, "scandir", Interfering(tmp_path, file.unlink))
    assert not FolderSource(tmp_path).find_skills().found


@pytest.mark.covers("S2-01")
def test_a_root_that_does_not_exist_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="There is no folder"):
        FolderSource(tmp_path / "missing").find_skills()


@pytest.mark.covers("S2-01", "G-05")
def test_a_root_that_is_a_file_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SourceUnavailable, match="is not a folder"):
        FolderSource(tmp_path / "file").find_skills()


def _directory(path: Path) -> None:
    path.mkdir()


def _link(path: Path) -> None:
    target = path.parent.parent / "target.md"
    target.write_text("---\nname: x\ndescription: y\n---\nz")
    path.symlink_to(target)


def _broken_link(path: Path) -> None:
    path.symlink_to("nowhere.md")


@pytest.mark.covers("S2-01", "G-06")
@pytest.mark.parametrize("make", [_directory, os.mkfifo, _link, _broken_link])
def test_a_skill_file_that_is_no_plain_file_is_found_so_that_it_can_be_explained(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    (tmp_path / "a").mkdir()
    make(tmp_path / "a" / "SKILL.md")
    assert found(tmp_path) == ["a/SKILL.md"]


@pytest.mark.covers("S2-01", "G-06")
@pytest.mark.parametrize("make", [_directory, os.mkfifo, _link, _broken_link])
def test_a_root_whose_skill_file_is_no_plain_file_is_still_that_skill(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    (tmp_path / "alone").mkdir()
    make(tmp_path / "alone" / "SKILL.md")
    assert found(tmp_path / "alone") == ["SKILL.md"]


@pytest.mark.parametrize(("make", "error"), [(_directory, FileRefused), (os.mkfifo, FileRefused), (_link, OSError)])
def test_a_skill_file_that_is_no_plain_file_is_never_read(
    tmp_path: Path, make: Callable[[Path], None], error: type[Exception]
) -> None:
    (tmp_path / "a").mkdir()
    make(tmp_path / "a" / "SKILL.md")
    with pytest.raises(error):
        FolderSource(tmp_path).read("a/SKILL.md")


def test_identity_follows_the_file_and_ends_with_it(tmp_path: Path, write_skill: Write) -> None:
    file = write_skill(tmp_path / "a")
    source = FolderSource(tmp_path)
    before = source.identity("a/SKILL.md")
    assert before == source.find_skills().found["a/SKILL.md"]
    replacement = write_skill(tmp_path / "b", body="Other.")
    os.replace(replacement, file)
    assert source.identity("a/SKILL.md") != before
    file.unlink()
    assert source.identity("a/SKILL.md") is None


def test_reading_gives_the_bytes_on_disk(tmp_path: Path, write_skill: Write) -> None:
    file = write_skill(tmp_path / "a", body="Grüße.")
    assert FolderSource(tmp_path).read("a/SKILL.md")[0] == file.read_bytes()


@pytest.mark.usefixtures("settled")
def test_bytes_of_a_settled_file_come_with_the_identity_of_the_scan(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "a")
    source = FolderSource(tmp_path)
    assert source.read("a/SKILL.md")[1] == source.find_skills().found["a/SKILL.md"]


def test_bytes_of_a_file_just_written_come_with_an_identity_that_no_scan_gives(
    tmp_path: Path, write_skill: Write
) -> None:
    source = FolderSource(tmp_path)
    write_skill(tmp_path / "a")
    assert source.read("a/SKILL.md")[1] != source.find_skills().found["a/SKILL.md"]


def test_sources_that_scan_differently_have_different_cache_keys(tmp_path: Path) -> None:
    keys = {
        FolderSource(tmp_path).cache_key(),
        FolderSource(tmp_path, whole_root=False).cache_key(),
        FolderSource(tmp_path, contain=tmp_path).cache_key(),
        FolderSource(tmp_path / "other").cache_key(),
    }
    assert len(keys) == 4


def test_names_that_differ_by_case_or_unicode_form_are_different_skills(tmp_path: Path, write_skill: Write) -> None:
    names = ["café", "cafe\u0301", "Deploy", "deploy"]
    for name in names:
        write_skill(tmp_path / name)
    there = len(os.listdir(tmp_path))
    assert len(found(tmp_path)) == there


def test_files_of_a_skill_are_those_of_its_folder(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "a")
    (tmp_path / "a" / "notes.txt").write_text("x")
    listing = FolderSource(tmp_path).package("a/SKILL.md").listing()
    assert [file.path for file in listing.files] == ["SKILL.md", "notes.txt"]


def test_a_stray_skill_file_does_not_hide_the_skills_around_it(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "a")
    (tmp_path / "SKILL.md").write_text("stray")
    scan = FolderSource(tmp_path).find_skills()
    assert list(scan.found) == ["a/SKILL.md"]
    assert [finding.diagnostic.code for finding in scan.findings] == ["root-skill-ignored"]


def test_an_archive_among_folders_of_skills_is_pointed_out(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "a")
    (tmp_path / "b.zip").write_bytes(b"x")
    assert [finding.diagnostic.code for finding in FolderSource(tmp_path).find_skills().findings] == ["archive-ignored"]
