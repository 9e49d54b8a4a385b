"""From a block to a mapping, within bounds."""

from __future__ import annotations

import time

import pytest

from metier.skill import parse
from metier.skill.fast_yaml import MAX_BLOCK_BYTES, read_block
from metier.skill.yaml_block import BlockError, BlockTooComplex, parse_yaml

HOSTILE = {
    "alias bomb": "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
    "merge bomb": "a: &a {x: 1}\n"
    + "".join(
        f"{b}: &{b}\n  <<: [{','.join([f'*{a}'] * 20)}]\n  k: {{<<: *{a}}}\n  l: {{<<: *{a}}}\n"
        for a, b in zip("abcdefghijklmnopqrstuv", "bcdefghijklmnopqrstuvw", strict=True)
    ),
    "itself in a list": "a: &a [*a]\n",
    "itself in a map": "a: &a {b: *a}\n",
    "itself as a key": "a: &a\n  ? *a\n  : x\n",
    "deep flow lists": "a: " + "[" * 5_000 + "]" * 5_000 + "\n",
    "open flow lists": "a: " + "[" * 30_000 + "\n",
    "deep block": "".join(" " * i + "k:\n" for i in range(340)),
    "dashes": "a:\n  " + "- " * 15_000 + "x\n",
    "dashes on lines": "a:\n" + "".join(" " * i + "-\n" for i in range(340)),
    "too large": "a: " + "x" * 70_000 + "\n",
    "many keys": "".join(f"k{i}: v\n" for i in range(6_000)),
    "many anchors": "".join(f"k{i}: &a{i} v\n" for i in range(3_000)),
}


@pytest.mark.each("kind", HOSTILE)
def test_a_hostile_block_costs_little_and_hides_nothing(kind: str) -> None:
    block = f"name: good\ndescription: Stays.\n{HOSTILE[kind]}"
    start = time.process_time()
    skill = parse(f"---\n{block}---\nDo it.\n".encode(), folder="good").skill
    assert time.process_time() - start < 2
    assert (skill.name, skill.description) == ("good", "Stays.")
    assert not any(note.severity == "error" for note in skill.diagnostics)


@pytest.mark.each(
    "kind",
    [
        "alias bomb",
        "merge bomb",
        "itself in a list",
        "itself in a map",
        "itself as a key",
        "deep flow lists",
        "dashes",
        "deep block",
    ],
)
def test_what_is_too_complex_is_said(kind: str) -> None:
    reading = read_block(f"name: good\n{HOSTILE[kind]}", 2)
    assert "yaml-too-complex" in [note.code for note in reading.notes]


def test_a_block_over_64_kilobytes_gives_its_first_fields() -> None:
    block = "name: good\ndescription: Stays.\n" + "filler: " + "x" * MAX_BLOCK_BYTES + "\nlast: y\n# '\t\n"
    reading = read_block(block + "\tz: w\n", 2)
    assert (reading.mapping["name"], reading.mapping["description"]) == ("good", "Stays.")
    assert [note.code for note in reading.notes] == ["frontmatter-too-large"]


BRACES = 16


@pytest.mark.each(
    "block",
    [
        "k: " + "{" * BRACES + "x" + "}" * BRACES + "\n",
        "? " * BRACES + "x\n",
        "k:\n" + "".join(" " * i + "?\n" for i in range(1, BRACES)),
    ],
)
def test_a_map_as_a_key_of_a_map_as_a_key_stays_small(block: str) -> None:
    mapping = read_block(f"name: a\n{block}", 2).mapping
    assert len(repr(mapping)) < 100 * len(block)


@pytest.mark.each(
    "block",
    [
        'a: &a "{big}"\ndescription: [{aliases}]\nname: b\n',
        'a: &a "{big}"\n? [{aliases}]\n: 1\nname: b\n',
        'a: &a "{big}"\nname: [{aliases}]\ndescription: x\n',
    ],
)
def test_a_long_scalar_cannot_be_multiplied_by_aliases(block: str) -> None:
    filled = block.replace("{big}", "x" * 5_000).replace("{aliases}", ",".join(["*a"] * 500))
    skill = parse(f"---\n{filled}---\nDo it.\n".encode()).skill
    assert len(skill.description) < 200_000
    assert len(repr(dict(skill.frontmatter))) < 1_000_000


def deeper(levels: int, block: str) -> str:
    """Parse with much of the stack in use, as inside somebody's framework."""
    if levels:
        return deeper(levels - 1, block)
    return parse(f"---\n{block}---\nDo it.\n".encode(), folder="good").skill.name


@pytest.mark.each(
    "block",
    ["".join(" " * i + "-\n" for i in range(340)), "name: good\nk:\n" + "".join(" " * i + "-\n" for i in range(340))],
)
def test_nesting_that_spends_lines_and_not_marks_is_bounded_too(block: str) -> None:
    assert deeper(500, block)


@pytest.mark.each(
    ("block", "mapping"),
    [
        (
            "version: 1.10\nname: on\nn: 010\nd: 2024-01-01\nz: null\n",
            {"version": "1.10", "name": "on", "n": "010", "d": "2024-01-01", "z": "null"},
        ),
        ("a: &x [b]\nc: *x\n", {"a": ["b"], "c": ["b"]}),
        ("a: !!int 3\n", {"a": "3"}),
        ("a: {b: c, d: [e]}\n", {"a": {"b": "c", "d": ["e"]}}),
        ("{{ name }}: x\n", None),
        ('a: "\\u00e9"\n', {"a": "é"}),
        ("# only a comment\n", {}),
        ("\n\n", {}),
    ],
)
def test_scalars_stay_the_text_that_was_written(block: str, mapping: dict[str, object] | None) -> None:
    reading = read_block(block, 2)
    if mapping is None:
        assert len(reading.mapping) == 1
    else:
        assert reading.mapping == mapping
    assert reading.notes == ()


def test_of_a_key_given_twice_the_last_counts() -> None:
    reading = read_block("a: 1\nb: 2\na: 3\n", 2)
    assert reading.mapping == {"a": "3", "b": "2"}
    assert [(note.code, note.line, note.values) for note in reading.notes] == [("yaml-duplicate-key", 4, ("a",))]
    assert dict(zip(reading.mapping, reading.lines, strict=True)) == {"a": 4, "b": 3}


def test_a_nested_key_given_twice_is_said_too() -> None:
    reading = read_block("m:\n  a: 1\n  a: 2\n", 2)
    assert reading.mapping == {"m": {"a": "2"}}
    assert [(note.code, note.line) for note in reading.notes] == [("yaml-duplicate-key", 4)]


@pytest.mark.each("block", ["just some text\n", "- a\n- b\n", '"quoted"\n'])
def test_a_block_that_is_no_mapping_is_text(block: str) -> None:
    reading = read_block(block, 2)
    assert reading.mapping == {}
    assert [note.code for note in reading.notes] == ["frontmatter-not-a-mapping"]
    document = parse(f"---\n{block}---\nDo it.\n".encode(), folder="a")
    assert document.body == f"{block}\nDo it."


@pytest.mark.each(
    ("block", "line"),
    [
        ("a: b\nc: 'd\n", 1),
        ("a: b\nc: d: e\n", 1),
        ("a: b\nc:\n\t- d\n", 2),
        ("a: b\nc: @d\n", 1),
        ("a: b\nc: \x07\n", 1),
    ],
)
def test_an_error_says_the_line_on_which_yaml_stopped(block: str, line: int) -> None:
    with pytest.raises(BlockError) as caught:
        parse_yaml(block)
    assert line <= caught.value.line <= line + 1 or caught.value.context_line == line


def test_too_complex_is_told_from_broken() -> None:
    with pytest.raises(BlockTooComplex):
        parse_yaml("a: " + "x" * MAX_BLOCK_BYTES + "\n")


@pytest.mark.each("separator", ["\u2028", "\u2029", "\x85"])
def test_only_line_feeds_count_as_lines(separator: str) -> None:
    reading = read_block(f"name: a\ndescription: 'x{separator}y'\nlicense: MIT\n", 2)
    assert dict(zip(reading.mapping, reading.lines, strict=True)) == {"name": 2, "description": 3, "license": 4}
