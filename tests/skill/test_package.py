"""What a package holds: paths, kinds, digests."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.errors import FileMissing, FileRefused, MetierError
from metier.skill.package import (
    EXCLUDED,
    DigestEntry,
    PackageFile,
    PackageListing,
    checked_path,
    digest_of,
    kind_of,
    relative_to_root,
)


@pytest.mark.covers("O-18")
@pytest.mark.each(
    ("path", "kind"),
    [
        ("SKILL.md", "skill"),
        ("skill.md", "skill"),
        ("Skill.MD", "skill"),
        ("sub/SKILL.md", "other"),
        ("scripts/a.py", "script"),
        ("scripts/deep/er/a.sh", "script"),
        ("bin/a.js", "script"),
        ("tools/a.RB", "script"),
        ("scripts/data.json", "other"),
        ("scripts/a.txt", "other"),
        ("scripts/a.csv", "other"),
        ("a.py", "other"),
        ("references/a.md", "reference"),
        ("docs/a.md", "reference"),
        ("assets/logo.png", "asset"),
        ("templates/a.py", "asset"),
        ("notes.txt", "other"),
    ],
)
def test_a_file_is_for_what_its_place_says(path: str, kind: str) -> None:
    assert kind_of(path) == kind


@pytest.mark.covers("O-09")
def test_only_recorded_scripts_are_scripts() -> None:
    files = (
        PackageFile(path="scripts/a.py", size=1, kind="script"),
        PackageFile(path="a.md", size=1, kind="other"),
    )
    listing = PackageListing(files=files)
    assert listing.is_script("scripts/a.py")
    assert not listing.is_script("a.md")
    assert not listing.is_script("scripts/b.py")
    assert not PackageListing(files=()).is_script("scripts/a.py")


@pytest.mark.covers("S-08")
@pytest.mark.each(
    ("path", "segments"),
    [
        ("a.md", ("a.md",)),
        ("a/b.md", ("a", "b.md")),
        ("./a//b.md", ("a", "b.md")),
        ("a\\b.md", ("a", "b.md")),
        ("file..txt", ("file..txt",)),
        ("...", ("...",)),
        ("a b/c d.md", ("a b", "c d.md")),
        ("技能/é.md", ("技能", "é.md")),
    ],
)
def test_a_path_inside_is_split(path: str, segments: tuple[str, ...]) -> None:
    assert checked_path(path) == segments


@pytest.mark.covers("Y-20", "G-09")
@pytest.mark.each(
    "path",
    [
        "..",
        "../x",
        "a/../../x",
        "a/..",
        "/",
        "/etc/passwd",
        "//x",
        "\\x",
        "..\\x",
        "a\\..\\..\\x",
        "C:/x",
        ".",
        "./",
        "./..",
    ],
)
def test_a_path_that_leaves_is_named_traversal(path: str) -> None:
    with pytest.raises(FileRefused, match="traversal"):
        checked_path(path)


@pytest.mark.covers("G-09")
@pytest.mark.each(
    "path", ["", " ", "\t", "a\0", "a\nb", "a\rb", "a\x1bb", "a\tb", "a\u202eb", "a\udcffb", "x/" * 3_000]
)
def test_an_empty_or_hidden_path_is_refused(path: str) -> None:
    with pytest.raises(FileRefused):
        checked_path(path)


@pytest.mark.each("name", sorted(EXCLUDED))
def test_what_is_no_part_of_a_package_is_missing(name: str) -> None:
    with pytest.raises(FileMissing):
        checked_path(f"{name}/config")
    with pytest.raises(FileMissing):
        checked_path(f"a/{name}")


@given(st.text(max_size=40) | st.text("./\\a:", max_size=12))
def test_what_passes_is_plainly_inside(path: str) -> None:
    try:
        segments = checked_path(path)
    except MetierError as error:
        assert error.hint
        return
    assert segments
    for segment in segments:
        assert segment not in ("", ".", "..")
        assert "/" not in segment
        assert "\\" not in segment
        assert not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in segment)


def test_the_order_of_entries_does_not_matter() -> None:
    entries = [DigestEntry("a", "file", b"1"), DigestEntry("b", "exec", b"2")]
    assert digest_of(entries) == digest_of(entries[::-1])
    assert digest_of(entries).startswith("sha256:")
    assert len(digest_of(entries)) == 71


@pytest.mark.each(
    ("one", "other"),
    [
        ([DigestEntry("ab", "file", b"c")], [DigestEntry("a", "file", b"bc")]),
        ([DigestEntry("a", "file", b"")], []),
        ([DigestEntry("a", "file", b"x")], [DigestEntry("a", "link", b"x")]),
        ([DigestEntry("a", "file", b"x")], [DigestEntry("a", "exec", b"x")]),
        ([DigestEntry("a", "file", b"x"), DigestEntry("b", "file", b"")], [DigestEntry("a", "file", b"xb")]),
    ],
)
def test_no_two_packages_read_alike(one: list[DigestEntry], other: list[DigestEntry]) -> None:
    assert digest_of(one) != digest_of(other)


def test_a_file_name_that_is_not_utf8_has_a_digest() -> None:
    assert digest_of([DigestEntry("\udcff", "file", b"x")]) != digest_of([DigestEntry("\udcfe", "file", b"x")])


@pytest.mark.each(
    ("path", "left"),
    [
        ("/skills/forms/references/api.md", "references/api.md"),
        ("/skills/forms/../other/SKILL.md", "../other/SKILL.md"),
        ("/skills/forms//etc/passwd", "/etc/passwd"),
        ("/skills/forms", "/skills/forms"),
        ("/skills/forms-old/api.md", "/skills/forms-old/api.md"),
        ("/skills/other/forms/api.md", "/skills/other/forms/api.md"),
        ("skills/forms/api.md", "skills/forms/api.md"),
        ("references/api.md", "references/api.md"),
    ],
)
def test_only_the_root_that_was_told_is_taken_off_a_path(path: str, left: str) -> None:
    assert relative_to_root(path, "/skills/forms") == left
    assert relative_to_root(path, "/skills/forms/") == left


def test_without_a_root_a_path_stays_as_it_is() -> None:
    assert relative_to_root("/etc/passwd", "") == "/etc/passwd"
