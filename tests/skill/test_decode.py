"""Whatever encoding a file was saved in, it comes out as clean text."""

from __future__ import annotations

import pytest

from metier.skill import parse
from metier.skill.frontmatter import decode, drop_control

SKILL = "---\nname: notes\ndescription: Écrit des notes — 技能.\n---\n# Notes\n\nDo it.\n"


def codes(data: bytes) -> list[str]:
    return [note.code for note in decode(data)[1]]


def test_plain_utf8_needs_no_word() -> None:
    assert decode(SKILL.encode()) == (SKILL, ())


@pytest.mark.covers("G-02")
def test_a_bom_is_skipped_with_a_word() -> None:
    text, notes = decode(b"\xef\xbb\xbf" + SKILL.encode())
    assert text == SKILL
    assert [(note.code, note.line, note.severity) for note in notes] == [("bom", 1, "info")]


@pytest.mark.covers("G-02")
@pytest.mark.each("end", ["\r\n", "\r"])
def test_every_kind_of_line_end_becomes_a_line_feed(end: str) -> None:
    assert decode(SKILL.replace("\n", end).encode()) == (SKILL, ())


def test_mixed_line_ends_become_line_feeds() -> None:
    assert decode(b"a\r\nb\rc\nd\r\r\n")[0] == "a\nb\nc\nd\n\n"


@pytest.mark.each("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_with_a_bom_is_converted(encoding: str) -> None:
    data = SKILL.encode(encoding) if encoding == "utf-16" else ("\ufeff" + SKILL).encode(encoding)
    text, notes = decode(data)
    assert text == SKILL
    assert [note.code for note in notes] == ["utf16"]


def test_a_skill_in_utf16_loads() -> None:
    skill = parse(SKILL.encode("utf-16"), folder="notes").skill
    assert (skill.name, skill.description) == ("notes", "Écrit des notes — 技能.")


def test_a_damaged_utf16_file_does_not_raise() -> None:
    assert codes(b"\xff\xfe\x00\xd8a") == ["utf16"]


def test_a_few_bad_bytes_are_replaced_and_the_offset_is_said() -> None:
    text, notes = decode(b"name: caf\xe9 au lait\nmore\n")
    assert text == "name: caf\ufffd au lait\nmore\n"
    assert notes[0].code == "invalid-utf8"
    assert notes[0].values[0] == "9"
    assert notes[0].line == 1


def test_the_line_of_the_first_bad_byte_is_said() -> None:
    assert decode(b"a\nb\nc\xff\n")[1][0].line == 3


def test_a_file_in_gb18030_is_read_as_such() -> None:
    written = "---\nname: notes\ndescription: " + "写一个笔记然后检查" * 5 + "\n---\n做。\n"
    text, notes = decode(written.encode("gb18030"))
    assert text == written
    assert notes[0].values[1] == "GB 18030"


def test_a_file_in_windows_1252_is_read_as_such() -> None:
    written = "naïve café à la carte — «quoted» é é é é é é é é é\n"
    text, notes = decode(written.encode("cp1252"))
    assert [note.code for note in notes] == ["invalid-utf8"]
    assert "\0" not in text
    assert text.endswith("\n")


@pytest.mark.covers("G-03")
def test_a_nul_byte_is_dropped_and_named() -> None:
    text, notes = decode(b"one\ntw\0o\n")
    assert text == "one\ntwo\n"
    assert [(note.code, note.line) for note in notes] == [("control-characters", 2)]
    assert "NUL byte" in notes[0].message


def test_control_characters_are_dropped_and_counted() -> None:
    text, notes = drop_control("a\x1b[2Jb\n\x07\x7f\x9bc")
    assert text == "a[2Jb\nc"
    assert notes[0].values == ("4", "U+001B")
    assert notes[0].line == 1


def test_tabs_and_line_ends_are_no_control_characters() -> None:
    assert drop_control("a\tb\r\nc\x85d") == ("a\tb\r\nc\x85d", ())


@pytest.mark.each("data", [b"", b"\xff", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\xef\xbb", b"\0", b"\x80" * 5000])
def test_odd_scraps_never_raise(data: bytes) -> None:
    text, notes = decode(data)
    assert "\0" not in text
    assert all(note.message and note.hint for note in notes)
