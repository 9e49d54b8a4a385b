"""From the bytes of a SKILL.md to a skill."""

from __future__ import annotations

import time
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from metier.skill import (
    DIAGNOSTIC_KINDS,
    Document,
    frontmatter_name,
    interpret,
    parse,
    read_frontmatter,
    shorten,
)
from metier.skill.document import trim_body
from metier.skill.frontmatter import decode, first_paragraph, frontmatter_of

HEAD = "---\nname: a\ndescription: Does it.\n---\n"


def codes(document: Document) -> list[str]:
    return [note.code for note in document.skill.diagnostics]


def errors(document: Document) -> list[str]:
    return [note.code for note in document.skill.diagnostics if note.severity == "error"]


@pytest.mark.covers("S-05", "O-13", "O-16")
def test_a_file_is_read_into_name_description_and_instructions() -> None:
    document = parse(
        b"---\nname: python-dev\ndescription: Writes Python.\n---\n\n# Instructions\nDo this.\n\n", folder="python-dev"
    )
    assert (document.skill.name, document.skill.description) == ("python-dev", "Writes Python.")
    assert document.body == "# Instructions\nDo this."
    assert document.body_line == 6
    assert document.skill.diagnostics == ()


@pytest.mark.covers("G-02")
def test_a_bom_crlf_and_dots_as_closer_are_all_accepted() -> None:
    text = "\ufeff---\nname: a\ndescription: Does it.\ncustom: {deep: [x]}\n...\n\n# The Title #\n\nDo é.\n"
    document = parse(text.replace("\n", "\r\n").encode(), folder="a")
    assert document.body == "# The Title #\n\nDo é."
    assert document.skill.display_name == "The Title"
    assert document.skill.extra == {"custom": {"deep": ["x"]}}
    assert codes(document) == ["bom"]


@pytest.mark.each(
    ("text", "expected"),
    [
        (HEAD + "# Title\n", "Title"),
        (HEAD + "Text.\n\n# Later ##\n", "Later"),
        (HEAD + "## Second\n", "a"),
        (HEAD.replace("name: a", "name: My Name") + "# Title\n", "My Name"),
        (HEAD, "a"),
    ],
)
def test_a_skill_is_shown_by_its_heading_or_by_the_name_as_written(text: str, expected: str) -> None:
    assert parse(text.encode(), folder="a").skill.display_name == expected


@pytest.mark.covers("Y-02")
def test_a_name_that_differs_from_its_folder_is_said() -> None:
    document = parse(HEAD.encode() + b"Do.", folder="b")
    assert document.skill.name == "a"
    assert [(n.code, n.severity, n.line) for n in document.skill.diagnostics] == [
        ("name-differs-from-folder", "info", 2)
    ]


def test_a_missing_name_is_the_folders() -> None:
    document = parse(b"---\ndescription: Does it.\n---\nDo.", folder="My Folder")
    assert (document.skill.name, document.skill.declared_name) == ("my-folder", None)
    assert codes(document) == ["name-missing"]


@pytest.mark.covers("Y-03", "G-03")
@pytest.mark.each(
    ("text", "description", "code"),
    [
        (
            "---\nname: a\n---\n# Title\n\nFirst **prose**\nof [it](x.md).\n\nMore.",
            "First prose of it.",
            "description-missing",
        ),
        ("---\nname: a\ndescription:\n---\n# Title\n\n```sh\nx\n```\n", "Title", "description-missing"),
        ("---\nname: a\ndescription: ''\n---\n```\ncode\n```\n", "``` code ```", "description-missing"),
        ("# Title\n\nProse.", "Prose.", "frontmatter-missing"),
        ("---\nname: a\nwhen_to_use: Asked.\n---\nDo.", "Asked.", "description-elsewhere"),
        ("---\nname: a\nsummary: Sums up.\n---\nDo.", "Sums up.", "description-elsewhere"),
        ("---\nname: a\nshort-description: Short.\n---\nDo.", "Short.", "description-elsewhere"),
        ("---\nname: a\nmetadata:\n  description: Inner.\n---\nDo.", "Inner.", "description-elsewhere"),
        ("---\nname: a\nDescription: Cased.\n---\nDo.", "Cased.", "field-alias"),
        ("---\nname: a\ndescription: [One, two]\n---\nDo.", "One, two", "field-joined"),
    ],
)
def test_a_missing_description_is_found_or_derived(text: str, description: str, code: str) -> None:
    document = parse(text.encode(), folder="a")
    assert document.skill.description == description
    assert code in codes(document)
    assert errors(document) == []


@pytest.mark.each(
    "fields",
    ['description: "   "', "description: ['']", "summary: [x]", "metadata:\n  description: [x]", 'when_to_use: " "'],
)
def test_no_skill_is_loaded_without_a_description(fields: str) -> None:
    document = parse(f"---\nname: a\n{fields}\n---\nFrom the body.\n".encode(), folder="a")
    assert document.skill.description


def test_name_and_description_below_metadata_are_found() -> None:
    document = parse(b"---\nmetadata:\n  name: inner\n  description: Inner.\n---\nDo.", folder="f")
    assert (document.skill.name, document.skill.description) == ("inner", "Inner.")
    assert codes(document).count("description-elsewhere") == 2


@pytest.mark.covers("O-14")
@pytest.mark.each("data", [b"", b"\n\n", b"  \t\n", b"\xef\xbb\xbf", b"\0", b"\r\n"])
def test_an_empty_file_is_an_error(data: bytes) -> None:
    document = parse(data, folder="a")
    assert errors(document) == ["file-empty"]
    assert [note.line for note in document.skill.diagnostics if note.severity == "error"] == [1]


@pytest.mark.each("text", ["---\nname: a\n---\n", "---\nname: a\n---\n\n\n", "---\n---\n", "---\ndescription:\n---"])
def test_neither_description_nor_body_is_an_error_with_a_line(text: str) -> None:
    document = parse(text.encode(), folder="a")
    found = [note for note in document.skill.diagnostics if note.severity == "error"]
    assert [note.code for note in found] == ["nothing-to-load"]
    assert found[0].line


@pytest.mark.covers("O-14")
def test_no_frontmatter_is_said_with_the_delimiter() -> None:
    note = parse(b"Just text.", folder="a").skill.diagnostics[0]
    assert (note.code, note.severity) == ("frontmatter-missing", "warning")
    assert "---" in note.hint


@pytest.mark.covers("G-01")
def test_an_empty_body_is_a_warning() -> None:
    document = parse(HEAD.encode(), folder="a")
    assert codes(document) == ["body-empty"]
    assert document.body == ""


@pytest.mark.covers("G-01")
def test_outer_blanks_of_a_description_go_with_a_word() -> None:
    document = parse(b'---\nname: a\ndescription: "  Does it. "\n---\nDo.', folder="a")
    assert document.skill.description == "Does it."
    assert "whitespace removed" in document.skill.diagnostics[0].message


@pytest.mark.covers("Y-05")
@pytest.mark.each("header", [">", ">-", ">+"])
def test_a_folded_description_is_one_paragraph(header: str) -> None:
    document = parse(f"---\nname: a\ndescription: {header}\n  One\n  two.\n---\nDo.".encode(), folder="a")
    assert document.skill.description == "One two."
    assert document.skill.diagnostics == ()


@pytest.mark.covers("O-04")
@pytest.mark.each(("length", "said"), [(1_024, False), (1_025, True)])
def test_a_long_description_loads_whole_with_a_word(length: int, said: bool) -> None:
    document = parse(f"---\nname: a\ndescription: {'x' * length}\n---\nDo.".encode(), folder="a")
    assert len(document.skill.description) == length
    assert ("description-too-long" in codes(document)) is said


def test_a_long_name_and_a_long_compatibility_load_with_a_word() -> None:
    document = parse(f"---\nname: {'x' * 65}\ndescription: d\ncompatibility: {'y' * 501}\n---\nDo.".encode())
    assert len(document.skill.name) == 64
    assert {"name-too-long", "name-invalid", "compatibility-too-long"} <= set(codes(document))


@pytest.mark.covers("O-30")
@pytest.mark.each("end", ["", "\n", "\n\n\n"])
def test_a_body_of_500_lines_is_not_too_long(end: str) -> None:
    document = parse((HEAD + "\n".join(["x"] * 500) + end).encode(), folder="a")
    assert "body-too-long" not in codes(document)
    assert document.skill.body_lines == 500


@pytest.mark.covers("O-30")
def test_a_body_of_501_lines_is_warned_of_with_both_numbers() -> None:
    document = parse((HEAD + "\n".join(["x"] * 501)).encode(), folder="a")
    note = document.skill.diagnostics[0]
    assert (note.code, note.severity) == ("body-too-long", "warning")
    assert "500 lines" in note.message
    assert "501 lines" in note.message
    assert "supporting files" in note.hint


@pytest.mark.covers("O-30")
def test_a_large_file_that_says_so_is_not_warned_of() -> None:
    text = "---\nname: a\ndescription: d\nlegacy-large-file: true\n---\n" + "\n".join(["x"] * 900)
    assert codes(parse(text.encode(), folder="a")) == []


@pytest.mark.covers("Y-07")
def test_many_tokens_are_warned_of() -> None:
    document = parse((HEAD + "words and more words " * 3_000).encode(), folder="a")
    assert "body-many-tokens" in codes(document)
    assert errors(document) == []


@pytest.mark.covers("Y-06")
def test_a_skill_holds_no_instructions() -> None:
    document = parse((HEAD + "# T\n\nUNIQUE-BODY-TEXT " * 5).encode(), folder="a")
    assert "UNIQUE-BODY-TEXT" not in repr(document.skill).replace(document.skill.display_name, "")


def test_a_file_under_another_name_is_read_with_a_word() -> None:
    assert codes(parse(HEAD.encode() + b"Do.", folder="a", file="skill.md")) == ["file-name-case"]


def test_control_characters_of_the_body_are_dropped_with_their_line() -> None:
    document = parse(f"{HEAD}\nOne\nTwo\x1b[2J\n".encode(), folder="a")
    assert document.body == "One\nTwo[2J"
    assert [(n.code, n.line) for n in document.skill.diagnostics] == [("control-characters", 7)]


def test_control_characters_of_the_body_do_not_come_back_in_what_is_derived() -> None:
    skill = parse(b"# Title\x1b[2J\n\nevil \x1b[2J text", folder="a").skill
    assert skill.description.isprintable()
    assert skill.display_name.isprintable()


@pytest.mark.each(
    ("body", "expected"),
    [
        ("# Title\n\nDeploys **safely** to\nproduction.\n\nMore.", "Deploys safely to production."),
        ("```\ncode\n```\n\nProse.", "Prose."),
        ("> A quote\n", "A quote"),
        ("- an item\n", "an item"),
        ("| a | b |\n\nProse.", "Prose."),
        ("![badge](x)\n\nProse.", "Prose."),
        ("snake_case and 2 * 3 stay\n", "snake_case and 2 * 3 stay"),
        ("", ""),
        ("# Only\n## Headings\n", ""),
    ],
)
def test_the_first_paragraph_is_the_first_prose(body: str, expected: str) -> None:
    assert first_paragraph(body) == expected


def test_a_derived_description_is_cut_at_a_word() -> None:
    text = first_paragraph("word " * 2_000)
    assert len(text) <= 1_024
    assert text.endswith("word…")


@given(st.text(max_size=80), st.integers(1, 60))
def test_shortened_text_is_never_longer(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert len(short) <= limit
    assert short == text or short.endswith("…")


@pytest.mark.each("body", ["\n\n  \nx\n y \n\n", "x", "", "\n \n", "  x"])
def test_trimming_counts_the_blank_lines_that_went(body: str) -> None:
    trimmed, blank = trim_body(body)
    if trimmed:
        assert body.split("\n")[blank] == trimmed.split("\n")[0]
        assert trimmed[-1].strip()


def test_a_body_that_begins_with_many_blank_lines_is_trimmed_in_linear_time() -> None:
    start = time.process_time()
    assert trim_body("\n" * 200_000 + "x") == ("x", 200_000)
    assert time.process_time() - start < 0.1


# --- any bytes ---------------------------------------------------------------------------------------------------

FRAGMENTS = st.sampled_from(
    [
        "---\n",
        "---",
        "...\n",
        "\n",
        "\r\n",
        "\r",
        "name: a\n",
        "name:\n",
        "description: Does it.\n",
        "description: >\n  x\n",
        "a: b: c\n",
        "  - x\n",
        "\t",
        "'",
        '"',
        "[",
        "]",
        "{",
        "}",
        "&a ",
        "*a ",
        "? ",
        ": ",
        "- ",
        "#",
        "# T\n",
        "```\n",
        "\x00",
        "\x1b[2J",
        "\ufeff",
        "\u2028",
        "\x85",
        "é",
        "😀",
        "Do it.\n",
        "<!-- x -->\n",
        "metadata:\n  name: z\n",
        "tags: [a, b]\n",
        "hooks:\n  pre: x\n",
        "allowed-tools: Bash(x\n",
        "scope: {agents: a}\n",
        "\\",
        "|\n",
        ">-\n",
        "%",
        "@",
        "!x ",
    ]
)
FILES = st.one_of(
    st.binary(max_size=120),
    st.lists(FRAGMENTS, max_size=24).map(lambda parts: "".join(parts).encode()),
    st.lists(FRAGMENTS, max_size=16).map(lambda parts: ("---\n" + "".join(parts) + "\n---\nDo it.\n").encode()),
    st.tuples(st.lists(FRAGMENTS, max_size=10), st.binary(max_size=8)).map(
        lambda both: b"---\n" + "".join(both[0]).encode() + both[1] + b"\n---\n"
    ),
    st.text(max_size=80).map(lambda text: text.encode("utf-16")),
)


@given(FILES, st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_any_bytes_give_a_usable_skill(data: bytes, folder: str) -> None:
    start = time.process_time()
    document = parse(data, folder=folder)
    assert time.process_time() - start < 1
    name = document.skill.name
    assert 0 < len(name) <= 64
    assert name.isprintable()
    assert not set(name) & set("/\\.: \t")
    assert document.body_line >= 1
    for note in document.skill.diagnostics:
        assert note.code in DIAGNOSTIC_KINDS
        assert note.message.isprintable()
        assert note.hint.isprintable()
        assert note.line is None or note.line >= 1
    assert document.skill.description or errors(document)
    draft = read_frontmatter(data)
    assert frontmatter_name(draft, folder) == interpret(draft, folder).name == name


@given(FILES)
@example(HEAD.encode() + b"# " + "😀".encode() * 210 + b"\n")
@example(HEAD.encode() + b"# " + b" " * 900 + b"x\n")
@example(HEAD.encode() + b"text\n#  \n# x\n")
def test_the_quick_way_to_a_draft_gives_the_same_draft(data: bytes) -> None:
    assert read_frontmatter(data) == frontmatter_of(*decode(data))[0]


@pytest.mark.each("body", [" " * 200, "\n" * 150, "\u3000", "\x1c", "\xa0\n", "\x85"])
def test_the_quick_way_to_a_draft_knows_every_kind_of_blank(body: str) -> None:
    data = (HEAD + body).encode()
    assert read_frontmatter(data) == frontmatter_of(*decode(data))[0]


@given(
    st.text("abc é技'\"\\:#-\n[]{}&*!|>%@`,? ", min_size=1, max_size=40),
    st.text("abc é技'\"\\:#-\n[]{}&*!|>%@`,? ", min_size=1, max_size=60),
    st.sampled_from([None, "'", '"', "|", ">"]),
    st.booleans(),
    st.sampled_from([20, 80, 10_000]),
)
def test_valid_yaml_gives_its_own_name_and_description(
    name: str, description: str, style: Any, non_ascii: bool, width: int
) -> None:
    fields = {"description": description, "name": name}
    block = yaml.dump(fields, default_style=style, allow_unicode=non_ascii, width=width)
    if (
        any(line.rstrip() in ("---", "...") for line in block.split("\n"))
        or not name.strip()
        or not description.strip()
    ):
        return
    skill = parse(f"---\n{block}---\nDo it.\n".encode(), folder="f").skill
    assert (skill.declared_name, skill.description) == (name.strip(), description.strip())
    assert {key: value.strip() for key, value in skill.frontmatter.items()} == {
        "description": description.strip(),
        "name": name.strip(),
    }


def test_a_file_of_two_megabytes_is_read_in_bounded_time() -> None:
    start = time.process_time()
    for unit in (b"x ", b"# \n", b"[a](b) ", b"**", b"\xff", b"`", b"> "):
        parse(b"# T\n\n" + unit * (500_000 // len(unit)), folder="a")
    assert time.process_time() - start < 5


def test_a_stray_line_in_the_frontmatter_costs_neither_name_nor_description() -> None:
    skill = parse(b"---\nname: a\nstray\ndescription: Does it.\n---\n# A\n\nBody.", folder="a").skill
    assert (skill.name, skill.description, skill.description_source) == ("a", "Does it.", "own")
    assert "yaml-unreadable" in [found.code for found in skill.diagnostics]
