"""The fast path gives what PyYAML gives, or nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from metier.skill.fast_yaml import read_fast_yaml


def by_yaml(block: str) -> Any:
    """What PyYAML makes of a block; `yaml.YAMLError` where it refuses."""
    return yaml.load(block, yaml.CBaseLoader)


# --- generated blocks --------------------------------------------------------------------------------------------

KEYS = st.sampled_from(
    ["name", "description", "a", "b-c", "d_e", "x.y", "Key", "license", "k9", "a b", "1a", "-", "é", '"q"', "on", "_u"]
)
WORDS = st.sampled_from(
    [
        "word",
        "two words",
        "it's",
        'say "hi"',
        "a: b",
        "a:b",
        "a #b",
        "a#b",
        "# c",
        "- x",
        "-",
        "?",
        "? x",
        ":",
        "x:",
        "[x]",
        "{x}",
        "&a",
        "*a",
        "!t",
        "|",
        ">",
        "%",
        "@",
        "`",
        "~",
        "null",
        "1.10",
        "http://x.y/z?a=b#c",
        "Bash(git:*)",
        "é",
        "漢字",
        "😀",
        "a\tb",
        "\xa0",
        "\u200b",
        "x\u2028y",
        "\\",
        "\\n",
        'a\\"b',
        "''",
        '""',
        "'",
        '"',
        "...",
        "---",
        "a,b",
        "a, b",
        "=",
        "<<",
        "trailing  ",
        ",",
        "]",
        "}",
        "key: {a}",
        "x'y'z",
        "a''b",
        "",
        " ",
        "\x85",
        "ends with:",
    ]
)
PLAIN = st.one_of(WORDS, st.lists(WORDS, min_size=1, max_size=3).map(" ".join))
QUOTED = st.one_of(
    PLAIN.map(lambda text: f'"{text}"'),
    PLAIN.map(lambda text: "'" + text.replace("'", "''") + "'"),
    PLAIN.map(lambda text: f"'{text}'"),
    PLAIN.map(lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'),
)
FLOW = st.one_of(
    st.lists(st.one_of(PLAIN, QUOTED), max_size=4).map(lambda items: "[" + ", ".join(items) + "]"),
    st.lists(st.tuples(st.one_of(KEYS, QUOTED), st.one_of(PLAIN, QUOTED)), max_size=3).map(
        lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
    ),
    st.sampled_from(
        ['{"a": 1}', '{"a": [1, "b", {"c": null}], "d": -1.5e3}', '{"a":true}', "{}", "[]", "[a, [b]]", '{"a": "b}"}']
    ),
)
COMMENT = st.sampled_from(["", "", "", " # c", "  # c: d", " #", "#c", " ", "   "])
INLINE = st.tuples(st.one_of(PLAIN, QUOTED, FLOW), COMMENT).map("".join)


def indented(lines: list[str], by: int) -> list[str]:
    return [" " * by + line if line else line for line in lines]


@st.composite
def entries(draw: st.DrawFn, depth: int = 0) -> list[str]:
    """One entry of a map, as lines."""
    key = draw(KEYS)
    shape = draw(st.integers(0, 9))
    step = draw(st.sampled_from([2, 2, 2, 1, 4, 0]))
    if shape <= 3:
        return [f"{key}:{draw(st.sampled_from([' ', ' ', ' ', '  ', '']))}{draw(INLINE)}"]
    if shape == 4:
        header = draw(st.sampled_from(["|", ">", "|-", ">-", "|+", ">2", "| # c", ">- "]))
        content = draw(st.lists(st.one_of(PLAIN, st.just(""), st.just("  deeper"), st.just("   ")), max_size=5))
        return [f"{key}: {header}", *indented(content, step)]
    if shape == 5:
        first, *rest = draw(st.lists(st.one_of(PLAIN, st.just("")), min_size=2, max_size=4))
        mark = draw(st.sampled_from(["", '"', "'"]))
        tail = draw(st.sampled_from([mark, " " + mark, mark + " # c"]))
        return [f"{key}: {mark}{first}", *indented([*rest[:-1], rest[-1] + tail], step)]
    if shape == 6:
        return [f"{key}:", *indented(draw(st.lists(INLINE, max_size=3)), step)]
    if shape == 7:
        items = draw(st.lists(st.one_of(INLINE, st.tuples(KEYS, INLINE).map(": ".join)), min_size=1, max_size=4))
        dashed = [f"-{draw(st.sampled_from([' ', ' ', '  ', '']))}{item}" for item in items]
        return [f"{key}:{draw(COMMENT)}", *indented(dashed, draw(st.sampled_from([0, 2, 2, 1])))]
    if shape == 8:
        parts = draw(st.sampled_from(['{"a": 1}', '{"a": "b c", "d": [1, 2]}', '{"a" : {"b": "c"}}', '{"a": "b"} # c']))
        return [f"{key}:", *indented(draw(broken_lines(parts)), step or 2)]
    if depth > 2:
        return [f"{key}:"]
    inner = draw(st.lists(entries(depth + 1), max_size=3))
    return [f"{key}:{draw(COMMENT)}", *indented([line for entry in inner for line in entry], step)]


@st.composite
def broken_lines(draw: st.DrawFn, text: str) -> list[str]:
    """Text broken at random blanks, the way a pretty-printer or a careless editor would."""
    lines = [""]
    for character in text:
        if character in ' {},:"' and draw(st.integers(0, 3)) == 0:
            lines.append(draw(st.sampled_from(["", "", "  ", " \n  "])))
        lines[-1] += character
    return "\n".join(lines).split("\n")


SOUND_KEYS = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_.-]{0,12}", fullmatch=True)
SOUND = st.one_of(
    st.sampled_from(
        [
            "word",
            "Two words",
            "it's",
            'say "hi"',
            "a:b",
            "a#b",
            "1.10",
            "漢字 é 😀",
            "Bash(git:*)",
            "x -y",
            "x: y",
            "z:",
            "a  b",
        ]
    ),
    st.text("ab c'\"\\:#-,[]{}()*é", min_size=1, max_size=14).map(str.strip),
)
SOUND_INLINE = st.one_of(
    SOUND,
    SOUND,
    QUOTED,
    FLOW,
    st.tuples(SOUND, st.sampled_from([" # c", "   "])).map("".join),
    st.lists(SOUND, min_size=1, max_size=3).map(lambda items: "[" + ", ".join(items) + "]"),
    st.dictionaries(SOUND, st.one_of(SOUND, st.integers(), st.lists(SOUND, max_size=2)), max_size=3).map(json.dumps),
)


@st.composite
def sound_entries(draw: st.DrawFn, depth: int = 0) -> list[str]:
    """One entry of a map such as authors write."""
    key = draw(SOUND_KEYS)
    shape = draw(st.sampled_from(["inline", "inline", "block", "folded", "plain", "quoted", "list", "map", "json"]))
    step = draw(st.sampled_from([2, 2, 2, 4]))
    prose = st.lists(st.one_of(SOUND, SOUND, SOUND, st.just("")), min_size=1, max_size=4)
    if shape == "inline":
        return [f"{key}: {draw(SOUND_INLINE)}"]
    if shape in ("block", "folded"):
        header = ("|" if shape == "block" else ">") + draw(st.sampled_from(["", "-"]))
        return [f"{key}: {header}", *indented([draw(SOUND), *draw(prose)], step)]
    if shape == "plain":
        return [f"{key}: {draw(SOUND)}", *indented(draw(prose), step)]
    if shape == "quoted":
        mark = draw(st.sampled_from(["'", '"']))
        inner = [text.replace(mark, "") for text in draw(prose)]
        return [f"{key}: {mark}{inner[0]}", *indented([*inner[1:], draw(SOUND).replace(mark, "") + mark], step)]
    if shape == "list":
        step = draw(st.sampled_from([0, 2]))
        if depth < 2 and draw(st.booleans()):
            inner = [
                line for entry in draw(st.lists(sound_entries(depth + 1), min_size=1, max_size=2)) for line in entry
            ]
            return [f"{key}:", *indented([f"- {inner[0]}", *indented(inner[1:], 2)], step)]
        return [
            f"{key}:",
            *indented([f"- {item}" for item in draw(st.lists(SOUND_INLINE, min_size=1, max_size=3))], step),
        ]
    if shape == "json" or depth > 1:
        value = draw(st.dictionaries(SOUND, st.one_of(SOUND, st.lists(SOUND, max_size=2)), max_size=3))
        return [f"{key}:", *indented(json.dumps(value, indent=draw(st.sampled_from([1, 2, None]))).split("\n"), step)]
    deeper = [line for entry in draw(st.lists(sound_entries(depth + 1), min_size=1, max_size=3)) for line in entry]
    return [f"{key}:{draw(st.sampled_from(['', ' # c']))}", *indented(deeper, step)]


MUTATIONS = ["# comment", "", "  ", "- x", "  - y", "x", "---", "...", "\t", "key", "  deeper: 1", '"', "a: b: c"]


@st.composite
def blocks(draw: st.DrawFn) -> str:
    """A frontmatter block: sound or wild, sometimes hurt in a line or a character."""
    kind = draw(st.sampled_from([sound_entries(), sound_entries(), entries()]))
    lines = [line for entry in draw(st.lists(kind, min_size=1, max_size=5)) for line in entry]
    for _ in range(draw(st.sampled_from([0, 0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, len(lines) - 1))
        how = draw(st.integers(0, 5))
        if how == 0:
            lines.insert(at, draw(st.sampled_from(MUTATIONS)))
        elif how == 1 and len(lines) > 1:
            del lines[at]
        elif how == 2:
            lines[at] = " " * draw(st.integers(1, 4)) + lines[at]
        elif how == 3:
            lines[at] = lines[at].lstrip(" ")
        elif how == 4:
            lines.insert(at, lines[draw(st.integers(0, len(lines) - 1))])
        elif lines[at]:
            where = draw(st.integers(0, len(lines[at])))
            what = draw(st.sampled_from(list(":#-'\"[]{} \t&*!|>%@`,?\\")))
            lines[at] = lines[at][:where] + what + lines[at][where:]
    return "\n".join(lines) + "\n"


def assert_same_as_yaml(block: str) -> None:
    reading = read_fast_yaml(block, 2)
    if reading is None:
        return
    if reading.notes:
        with pytest.raises(yaml.YAMLError):
            by_yaml(block)
        assert {note.code for note in reading.notes} == {"yaml-unquoted-colon"}
    else:
        assert (by_yaml(block) or {}) == reading.mapping
    lines = block.split("\n")
    assert len(reading.lines) == len(reading.mapping)
    for key, line in zip(reading.mapping, reading.lines, strict=True):
        assert lines[line - 2].startswith(key)
    for note in reading.notes:
        assert note.line is not None
        assert lines[note.line - 2].startswith(note.values[0])


@given(blocks())
def test_what_the_fast_path_reads_is_what_yaml_reads(block: str) -> None:
    assert_same_as_yaml(block)


@pytest.mark.each(
    "block",
    [
        "name: pdf\ndescription: Fill forms\n",
        "name: on\nversion: 1.10\ndate: 2024-01-01\nempty: ~\n",
        "description: \"It's \\\"quoted\\\"\"\nother: 'it''s'\n",
        "description: >\n  One\n  two\n\n  three\nname: a\n",
        "description: |-\n  One\n    two\n\n  three\n\n\nname: a\n",
        "description: a plain\n  scalar that\n  goes on\nname: b\n",
        "tags: [a, 'b c', \"d\", Bash(git:*)]\n",
        "tags:\n- a\n- b # c\nlist:\n  - x\n  - k: v\n    l: w\n",
        "metadata:\n  author: me\n  nested:\n    deep: 1\n",
        'metadata: {"a": 1, "b": [true, null, {"c": "d"}]}\n',
        "# a comment\nname: a # another\n\nempty:\n",
        "k: '''quoted'''\n",
    ],
)
def test_what_authors_write_takes_the_fast_path(block: str) -> None:
    assert read_fast_yaml(block, 2) is not None
    assert_same_as_yaml(block)


@pytest.mark.each(
    "block",
    [
        "a: &x b\nc: *x\n",
        "a: !!str b\n",
        "a: b\na: c\n",
        "a:\tb\n",
        "a: b\tc\n",
        "a: x\u2028y\n",
        "a: \x1b[2J\n",
        "a: |+\n  x\n",
        "a: |2\n   x\n",
        "a: 'x\n",
        "a: [x\n",
        "? a\n: b\n",
        "a: b\n  c: d\n",
        "a: @x\n",
        'a: "\\u0041"\n',
        "just text\n",
        "- a\n- b\n",
        "a b: c\n",
        "a: b #c: d\nx: y: z # w\n",
        "a: {b: c}\n",
        'a: {"b": 1, "b": 2}\n',
        "a: [[x]]\n",
        "a: [x, , y]\n",
        "<<: x\n",
        'metadata:\n  {\n    "a": {"b": ["c"]}\n  }\n',
        'k: "one\n  two\n\n  three"\n',
        'k: "\n  a\n  "\n',
    ],
)
def test_what_is_not_sure_is_left_to_yaml(block: str) -> None:
    assert read_fast_yaml(block, 2) is None


@pytest.mark.each("value", ["Use when: asked", "a: b: c", "ends with:", "One : two"])
def test_an_unquoted_colon_is_read_as_text_with_its_line(value: str) -> None:
    reading = read_fast_yaml(f"name: a\ndescription: {value}\n", 2)
    assert reading is not None
    assert reading.mapping == {"name": "a", "description": value}
    assert [(note.code, note.line, note.values) for note in reading.notes] == [
        ("yaml-unquoted-colon", 3, ("description",))
    ]


def test_every_key_has_the_line_it_stands_on() -> None:
    reading = read_fast_yaml("# c\nname: a\n\ntags:\n- x\n\ndescription: >\n  b\nz: c\n", 5)
    assert reading is not None
    assert dict(zip(reading.mapping, reading.lines, strict=True)) == {"name": 6, "tags": 8, "description": 11, "z": 13}


@pytest.mark.each("block", ['k: "a\n  b "\n', "k: 'a\n  b '\n", 'k: "a\n\n  b "\n'])
def test_blanks_before_a_closing_quote_are_kept(block: str) -> None:
    assert_same_as_yaml(block)


@pytest.mark.each("block", ["k:\n  # c\n", "k:\n  # c\nn: a\n", "m:\n  k:\n    # c\n  n: a\n"])
def test_a_comment_below_a_key_is_no_value(block: str) -> None:
    assert_same_as_yaml(block)


@pytest.mark.each(
    "block",
    [
        'm:\n  {"a": "b\n    \n   c"}\n',
        'm:\n  {"a\n   b": 1}\n',
        'm:\n  {"a"\n  : 1}\n',
    ],
)
def test_json_broken_inside_a_string_or_before_a_colon_is_left_to_yaml(block: str) -> None:
    assert_same_as_yaml(block)


def test_a_very_deep_map_is_left_to_yaml() -> None:
    block = "".join(" " * i + "k:\n" for i in range(200))
    assert read_fast_yaml(block, 2) is None


def test_deep_json_is_left_to_yaml() -> None:
    assert read_fast_yaml("k: " + '{"a":' * 20_000 + "1" + "}" * 20_000 + "\n", 2) is None
