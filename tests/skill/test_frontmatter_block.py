"""Where the frontmatter begins and ends, however its author fenced it."""

from __future__ import annotations

import time

import pytest
from tests.tables import in_part

from metier.skill import parse
from metier.skill.frontmatter import split

FIELDS = "name: a\ndescription: Does it.\n"


def codes(text: str) -> list[str]:
    return [note.code for note in split(text).notes]


@pytest.mark.each(
    ("text", "block", "body"),
    [
        (f"---\n{FIELDS}---\nDo it.\n", FIELDS, "Do it.\n"),
        (f"---\n{FIELDS}---", FIELDS, ""),
        (f"---\n{FIELDS}...\nDo it.", FIELDS, "Do it."),
        (f"---\n{FIELDS}...\n---\nDo it.", FIELDS, "Do it."),
        ("---\n---\nDo it.", "", "Do it."),
        ("---\nname: a\ndescription: first --- second\n---\nDo.", "name: a\ndescription: first --- second\n", "Do."),
        ("---\nname: a\nd: |\n  x\n  ---\n  y\n---\nDo.", "name: a\nd: |\n  x\n  ---\n  y\n", "Do."),
        (f"---\n{FIELDS}---\nDo.\n\n---\n\nMore.", FIELDS, "Do.\n\n---\n\nMore."),
        (f"---\n{FIELDS}---\n---\nDo.", FIELDS, "---\nDo."),
        ("---\nname: a\n---x: b\n---\nDo.", "name: a\n---x: b\n", "Do."),
    ],
)
@pytest.mark.covers("G-02")
def test_delimiters_are_lines_and_never_part_of_a_line(text: str, block: str, body: str) -> None:
    cut = split(text)
    assert (cut.block, cut.body, cut.notes) == (block, body, ())
    lines = text.split("\n")
    assert "\n".join(lines[cut.block_line - 1 :]).startswith(block)
    assert "\n".join(lines[cut.body_line - 1 :]) == body


@pytest.mark.each(
    "text",
    [
        "",
        "# Just text\n",
        "Text\n\n---\n\nmore text\n\n---\n\nend",
        "# T\n\nnot a: field",
        "\n\n\n",
        "--\nname: a\n--\n",
    ],
)
@pytest.mark.covers("O-20")
def test_text_without_frontmatter_is_all_body(text: str) -> None:
    cut = split(text)
    assert cut.block is None
    assert cut.body == text


@pytest.mark.each(
    ("text", "code", "line"),
    [
        (f"\n\n---\n{FIELDS}---\nDo.", "frontmatter-leading-space", 1),
        (f"\u200b---\n{FIELDS}---\nDo.", "frontmatter-leading-space", 1),
        (f"---  \n{FIELDS}---\nDo.", "frontmatter-delimiter", 1),
        (f"----\n{FIELDS}---\nDo.", "frontmatter-delimiter", 1),
        (f"---\n{FIELDS}--- \nDo.", "frontmatter-delimiter", 4),
        (f"```yaml\n---\n{FIELDS}---\n```\nDo.", "frontmatter-fenced", 1),
        (f"```\n---\n{FIELDS}---\nDo.\n```\n", "frontmatter-fenced", 1),
        (f"<!-- hello -->\n---\n{FIELDS}---\nDo.", "frontmatter-preceded", 1),
        (f"Some words.\n---\n{FIELDS}---\nDo.", "frontmatter-preceded", 1),
        (f"---\n{FIELDS}----\nDo.", "frontmatter-closer", 4),
        (f"---\n{FIELDS}—\nDo.", "frontmatter-closer", 4),
        (f"---\n{FIELDS}  ---\nDo.", "frontmatter-closer", 4),
        (f"---\n{FIELDS}\n# Do.\n", "frontmatter-unclosed", 4),
        (f"---\n{FIELDS}", "frontmatter-unclosed", 4),
        (f"{FIELDS}---\nDo.", "frontmatter-no-opener", 1),
        (f"{FIELDS}\nDo.", "frontmatter-no-opener", 1),
    ],
)
def test_a_badly_fenced_block_is_found_with_a_word(text: str, code: str, line: int) -> None:
    cut = split(text)
    assert cut.block == FIELDS
    assert (code, line) in [(note.code, note.line) for note in cut.notes]
    document = parse(text.encode(), folder="a")
    assert (document.skill.name, document.skill.description) == ("a", "Does it.")
    assert "name:" not in document.body
    assert not any(note.severity == "error" for note in document.skill.diagnostics)


def test_words_before_the_block_are_kept_in_the_body() -> None:
    assert parse(f"Some words.\n---\n{FIELDS}---\nDo.".encode()).body == "Some words.\n\nDo."


def test_a_comment_before_the_block_is_not_part_of_the_body() -> None:
    assert parse(f"<!-- lint off -->\n---\n{FIELDS}---\nDo.".encode()).body == "Do."


def test_the_fence_around_a_whole_file_goes() -> None:
    assert parse(f"```markdown\n---\n{FIELDS}---\n# T\n\nDo.\n```\n".encode()).body == "# T\n\nDo."


def test_a_proper_closer_wins_over_a_loose_one() -> None:
    cut = split("---\nname: a\n----\nb: c\n---\nDo.")
    assert cut.block == "name: a\n----\nb: c\n"


def test_a_rule_in_the_body_of_a_block_never_closed_is_not_its_closer() -> None:
    text = "---\nname: a\ndescription: Does it.\n\n# Title\n\nSome text: here\n- and: 'this\n\n---\n\nMore."
    skill = parse(text.encode(), folder="a").skill
    assert (skill.name, skill.description) == ("a", "Does it.")
    assert "frontmatter-unclosed" in [note.code for note in skill.diagnostics]


@pytest.mark.each(
    "text",
    [
        "---\njust text\n---\nThe body.\n",
        "Some words.\n---\nname: x\ndescription: y\n---\nThe body.\n",
    ],
)
def test_the_body_begins_on_the_line_that_is_said(text: str) -> None:
    document = parse(text.encode())
    first = document.body.split("\n")[0]
    assert text.split("\n")[document.body_line - 1] == first


def test_a_block_never_closed_is_cut_in_linear_time() -> None:
    start = time.process_time()
    split("---\nname: x\n" + "\n" * 6_000 + "k: v")
    assert time.process_time() - start < 0.25


@in_part
@pytest.mark.each(
    "unit", ["---\n", "...\n", "----\n", "```\n", "name: a\n", "# \n", " \n", "\u2014\n", "- \n"], every=3
)
def test_long_files_of_one_line_are_cut_quickly(unit: str, part: float) -> None:
    lines = unit * int(50_000 * part)
    start = time.process_time()
    split(lines)
    split("x\n" + lines)
    split("---\n" + lines)
    assert time.process_time() - start < 2 * part
