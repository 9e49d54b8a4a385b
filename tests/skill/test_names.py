"""Which names are valid, and what an invalid one is called here."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.skill import is_valid_name, parse, slug
from metier.skill.names import MAX_NAME, usable_name


def is_safe(name: str) -> bool:
    return 0 < len(name) <= MAX_NAME and name.isprintable() and not set(name) & set("/\\.:@ \t\n~$%<>\"'`")


@pytest.mark.covers("O-02")
@pytest.mark.each("name", ["test", "test-skill", "test-skill-123", "a", "abc-123-xyz", "a" * 64, "3d-print", "0"])
def test_a_name_of_the_specification_is_valid(name: str) -> None:
    assert is_valid_name(name)
    assert slug(name) == name


@pytest.mark.covers("O-03")
@pytest.mark.each(
    "name",
    [
        "",
        "Test",
        "TEST",
        "test_skill",
        "test skill",
        "-test",
        "a--b",
        "a-",
        "abc\n",
        "a" * 65,
        "é",
        "技能",
        "a/b",
        "..",
        "a\0",
    ],
)
def test_any_other_name_is_not(name: str) -> None:
    assert not is_valid_name(name)


@pytest.mark.each(
    ("text", "expected"),
    [
        ("PDF Forms", "pdf-forms"),
        ("../../x", "x"),
        ("..\\..\\Windows", "windows"),
        ("/etc/passwd", "etc-passwd"),
        ("a__b--c", "a-b-c"),
        ("plugin:skill", "plugin-skill"),
        ("v1.2.3", "v1-2-3"),
        ("\x1b[2Jevil\r\n", "2jevil"),
        ("\uff26\uff35\uff2c\uff2c\u3000\uff37", "full-w"),
        ("ﬁle", "file"),
        ("Straße", "straße"),
        ("МОЙ навык", "мой-навык"),
        ("技能", "技能"),
        ("a\u202eb", "a-b"),
        ("a\u200bb", "a-b"),
        ("!!!", ""),
        ("", ""),
        ("-", ""),
        ("x" * 63 + "-y", "x" * 63),
    ],
)
def test_a_slug_keeps_letters_and_digits_only(text: str, expected: str) -> None:
    assert slug(text) == expected


@given(st.text(max_size=120))
def test_a_slug_is_its_own_slug(text: str) -> None:
    once = slug(text)
    assert slug(once) == once
    assert once == "" or is_safe(once)
    assert not once.startswith("-")
    assert not once.endswith("-")


@given(st.from_regex(r"[a-z0-9]+(-[a-z0-9]+)*", fullmatch=True).filter(lambda name: len(name) <= MAX_NAME))
def test_a_valid_name_is_kept(name: str) -> None:
    assert is_valid_name(name)
    assert usable_name(name, "folder") == slug(name) == name


@given(st.text(max_size=90), st.text(st.characters(exclude_categories=["Cs"]), max_size=90))
def test_whatever_is_written_gives_a_safe_name(written: str, folder: str) -> None:
    written = written.encode(errors="ignore").decode()
    name = usable_name(written, folder)
    assert is_safe(name)
    assert name == unicodedata.normalize("NFKC", name)


def test_a_name_without_letters_falls_back_on_the_folder() -> None:
    assert usable_name("!!!", "My Folder") == "my-folder"


def test_without_any_letter_the_name_is_stable() -> None:
    assert usable_name("!!!", "???") == usable_name("!!!", "???")
    assert usable_name("!!!", "???") != usable_name("!!", "???")


def test_a_folder_whose_name_is_not_utf8_has_a_name_too() -> None:
    assert is_safe(parse(b"Do it.", folder="\udcff\udcfe").skill.name)


@pytest.mark.each("name", ["../../x", "/etc/passwd", "a\\..\\b", '"\\0x"', '"a\\e[2Jb"', "..", ".", "con:", "x" * 500])
def test_a_hostile_name_is_kept_for_display_only(name: str) -> None:
    skill = parse(f"---\nname: {name}\ndescription: Does it.\n---\nDo.\n".encode(), folder="safe").skill
    assert is_safe(skill.name)
    assert "name-invalid" in [note.code for note in skill.diagnostics]
    assert skill.declared_name
