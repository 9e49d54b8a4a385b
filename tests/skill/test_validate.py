"""The specification, read strictly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.skill import DIAGNOSTIC_KINDS
from metier.skill.validate import check_strictly

VALID = "---\nname: good-skill\ndescription: Does it.\n---\nDo it.\n"


def found(
    text: str | bytes, folder: str = "good-skill", *, file: str = "SKILL.md", portable: bool = False
) -> list[str]:
    data = text.encode() if isinstance(text, str) else text
    return [note.code for note in check_strictly(data, folder=folder, file=file, portable=portable)]


@pytest.mark.each(
    "text",
    [
        VALID,
        VALID.replace("\n", "\r\n"),
        "\ufeff" + VALID,
        VALID.replace("---\nDo", "...\nDo"),
        "---\nname: good-skill\ndescription: >\n  Does --- it.\nlicense: MIT\ncompatibility: Linux\n"
        "metadata:\n  a: b\nallowed-tools: Bash(git:*) Read\n---\n",
        "---\nname: good-skill\ndescription: 'x'\nallowed-tools: [Read]\nmetadata: {a: {b: c}}\n---\n",
        "---\nname: &a good-skill\ndescription: *a\n---\n",
    ],
)
def test_a_valid_skill_has_nothing_against_it(text: str) -> None:
    assert found(text) == []


@pytest.mark.covers("O-02")
@pytest.mark.each("name", ["test", "a", "test-skill-123", "a" * 64, "3d-print", "技能", "мой-навык", "café"])
def test_a_valid_name_passes(name: str) -> None:
    assert found(f"---\nname: {name}\ndescription: x\n---\n", name) == []


@pytest.mark.covers("O-03", "G-03")
@pytest.mark.each(
    ("name", "code"),
    [
        ("Test", "spec-name-case"),
        ("TEST", "spec-name-case"),
        ("НАВЫК", "spec-name-case"),
        ("test_skill", "spec-name-characters"),
        ("test skill", "spec-name-characters"),
        ("a.b", "spec-name-characters"),
        ("../x", "spec-name-characters"),
        ("'abc\\n'", "spec-name-characters"),
        ('"abc\\nd"', "spec-name-characters"),
        ("-test", "spec-name-hyphen-ends"),
        ("a-", "spec-name-hyphen-ends"),
        ("a--b", "spec-name-hyphen-double"),
        ("Invalid--Skill", "spec-name-hyphen-double"),
        ("a" * 65, "spec-name-too-long"),
    ],
)
def test_an_invalid_name_is_an_error_that_names_the_rule(name: str, code: str) -> None:
    assert code in found(f"---\nname: {name}\ndescription: x\n---\n", "")


def test_an_invalid_name_is_told_what_to_write() -> None:
    notes = check_strictly(b"---\nname: My Skill\ndescription: x\n---\n", folder="my-skill")
    assert all(note.line == 2 for note in notes)
    assert any("my-skill" in note.hint for note in notes)


@pytest.mark.covers("Y-02", "G-03")
def test_a_name_unlike_its_folder_is_an_error() -> None:
    notes = check_strictly(VALID.encode(), folder="other")
    assert [note.code for note in notes] == ["spec-name-folder"]
    assert "must match expected name" in notes[0].message


@pytest.mark.covers("G-03")
@pytest.mark.each(
    ("data", "code", "fragment", "line"),
    [
        (b"# Just text\n", "spec-frontmatter-missing", "requires YAML frontmatter", 1),
        (b"\n" + VALID.encode(), "spec-frontmatter-missing", "requires YAML frontmatter", 1),
        (b"", "spec-frontmatter-missing", "requires YAML frontmatter", 1),
        (b"---\nname: good-skill\n", "spec-frontmatter-unclosed", "unterminated YAML frontmatter", 1),
        (b"---\ndescription: x\n---\n", "spec-name-missing", "frontmatter.name is required", 1),
        (b"---\nname: ''\ndescription: x\n---\n", "spec-name-missing", "frontmatter.name is required", 2),
        (b"---\nname: [good-skill]\ndescription: x\n---\n", "spec-name-not-text", "must be a string", 2),
        (b"---\nname: good-skill\n---\n", "spec-description-missing", "frontmatter.description is required", 1),
        (b"---\nname: good-skill\ndescription: ' '\n---\n", "spec-description-missing", "must not be empty", 3),
        (b"---\nname: good-skill\ndescription: [x]\n---\n", "spec-description-not-text", "must be a string", 3),
        (VALID.encode() + b"\xff\n", "spec-encoding", "valid UTF-8", 6),
        (VALID.encode() + b"x\0\n", "spec-encoding", "NUL byte", 6),
        (b"---\nname: good-skill\ndescription: a: b\n---\n", "spec-yaml", "Invalid YAML frontmatter", 3),
        (b"---\nname: good-skill\ndescription: 'x\n---\n", "spec-yaml", "Invalid YAML frontmatter", None),
        (b"---\n- a\n---\n", "spec-not-a-mapping", "must be a YAML mapping", 2),
        (b"---\nname: x\nname: good-skill\ndescription: x\n---\n", "spec-duplicate-key", "given twice", 3),
        (b"---\nname: good-skill\ndescription: x\nauthor: y\n---\n", "spec-unexpected-field", "Unexpected field", 4),
        (b"---\nname: good-skill\ndescription: x\ncompatibility: ''\n---\n", "spec-compatibility-empty", "1 to 500", 4),
        (
            b"---\nname: good-skill\ndescription: x\ncompatibility: [x]\n---\n",
            "spec-compatibility-not-text",
            "must be a string",
            4,
        ),
    ],
)
def test_each_rule_says_what_and_where(data: bytes, code: str, fragment: str, line: int | None) -> None:
    notes = check_strictly(data, folder="good-skill")
    assert [note.code for note in notes] == [code]
    assert fragment in notes[0].message
    assert notes[0].severity == "error"
    if line is not None:
        assert notes[0].line == line


@pytest.mark.covers("O-04")
@pytest.mark.each(
    ("field", "length", "codes"),
    [
        ("description", 1_024, []),
        ("description", 1_025, ["spec-description-too-long"]),
        ("compatibility", 500, []),
        ("compatibility", 501, ["spec-compatibility-too-long"]),
    ],
)
def test_lengths_count_in_characters_and_without_blanks(field: str, length: int, codes: list[str]) -> None:
    other = "" if field == "description" else "description: x\n"
    assert found(f"---\nname: good-skill\n{other}{field}: ' {'é' * length} '\n---\n") == codes


def test_every_problem_is_said_at_once() -> None:
    text = "---\nname: Bad--Name-\ncompatibility: []\nauthor: me\n---\n"
    assert found(text, "f") == [
        "spec-unexpected-field",
        "spec-name-case",
        "spec-name-hyphen-ends",
        "spec-name-hyphen-double",
        "spec-name-folder",
        "spec-description-missing",
        "spec-compatibility-not-text",
    ]


def test_three_hyphens_in_a_line_end_nothing() -> None:
    assert found("---\nname: good-skill\ndescription: first --- second\n---\n") == []


@pytest.mark.each(("file", "codes"), [("SKILL.md", []), ("skill.md", []), ("Skill.md", ["spec-file-name"])])
def test_the_file_has_its_name(file: str, codes: list[str]) -> None:
    assert found(VALID, file=file) == codes


@pytest.mark.each(
    ("fields", "code"),
    [
        ("name: good-skill\ndescription: a <b>", "portable-angle-brackets"),
        ("name: claude-helper\ndescription: x", "portable-reserved-word"),
        ("name: my-anthropic\ndescription: x", "portable-reserved-word"),
        ("name: good-skill\ndescription: x\nallowed-tools: [Read]", "portable-tools-list"),
        ("name: good-skill\ndescription: x\nmetadata: {a: {b: c}}", "portable-metadata-values"),
    ],
)
def test_upload_rules_hold_only_when_asked_for(fields: str, code: str) -> None:
    text = f"---\n{fields}\n---\n"
    folder = fields.split("\n")[0].removeprefix("name: ")
    assert found(text, folder) == []
    assert found(text, folder, portable=True) == [code]


def test_a_bomb_is_invalid_yaml() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert found(f"---\nname: good-skill\ndescription: x\n{bomb}---\n") == ["spec-yaml"]
    assert found(f"---\nname: good-skill\ndescription: {'x' * 70_000}\n---\n") == ["spec-yaml"]


def test_the_line_of_an_error_is_a_line_of_the_file() -> None:
    text = "---\nname: a\ndescription: x\u2028\u2028\u2028\u2028\u2028y: b: c\n---\nx"
    assert [note.line for note in check_strictly(text.encode(), folder="a")] == [3]


FRAGMENTS = st.sampled_from(
    [
        "---\n",
        "...\n",
        "\n",
        "name: a\n",
        "name: A--b\n",
        "description: x\n",
        "description: [x]\n",
        "a: b: c\n",
        "'",
        "[",
        "{",
        "}",
        "- x\n",
        "compatibility:\n",
        "metadata: {a: [b]}\n",
        "allowed-tools: [x]\n",
        "\x00",
        "\ufeff",
        "\u2028",
        "é",
        "\t",
        "# c\n",
        "? ",
        "&a ",
        "*a\n",
    ]
)
FILES = st.one_of(
    st.binary(max_size=80),
    st.lists(FRAGMENTS, max_size=15).map(lambda parts: ("---\n" + "".join(parts)).encode()),
    st.lists(FRAGMENTS, max_size=12).map(lambda parts: ("---\n" + "".join(parts) + "\n---\n").encode()),
)


@given(FILES, st.booleans())
def test_any_bytes_are_judged_and_line_ends_do_not_matter(data: bytes, portable: bool) -> None:
    data = data.replace(b"\r", b"")
    notes = check_strictly(data, folder="a", portable=portable)
    for note in notes:
        assert note.code in DIAGNOSTIC_KINDS
        assert note.severity == "error"
        assert note.message.isprintable()
        assert note.hint
        assert note.line is not None
        assert note.line >= 1
    with_crlf = check_strictly(data.replace(b"\n", b"\r\n"), folder="a", portable=portable)
    assert [(note.code, note.line) for note in with_crlf] == [(note.code, note.line) for note in notes]
