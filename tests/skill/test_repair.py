"""Each repair is made after a real error, in the one entry that has it, with a word."""

from __future__ import annotations

import pytest
import yaml

from metier.skill import parse
from metier.skill.fast_yaml import read_block


@pytest.mark.each(
    ("block", "key", "value", "code", "line"),
    [
        ("name: a\ndescription: Use when: asked\n", "description", "Use when: asked", "yaml-unquoted-colon", 3),
        (
            "name: a\ndescription: Use it: and\n  more: text\n",
            "description",
            "Use it: and more: text",
            "yaml-unquoted-colon",
            3,
        ),
        ("description: Note: this # is text\nname: a\n", "name", "a", "yaml-unquoted-colon", 2),
        ("name: a\ndescription: @mention them\n", "description", "@mention them", "yaml-reserved-start", 3),
        ("name: a\ndescription: `code` first\n", "description", "`code` first", "yaml-reserved-start", 3),
        ("name: a\ndescription: %d files\n", "description", "%d files", "yaml-reserved-start", 3),
        ("name: a\ndescription: *bold* text\n", "description", "*bold* text", "yaml-reserved-start", 3),
        ("name: a\ndescription: , comma\n", "description", ", comma", "yaml-reserved-start", 3),
        ("name: a\ndescription: |text\n", "description", "|text", "yaml-reserved-start", 3),
        ("name: a\ndescription: > text here\n", "description", "> text here", "yaml-reserved-start", 3),
        ("name: a\ndescription: & more\n", "description", "& more", "yaml-reserved-start", 3),
        ("name: a\nmetadata:\n\tauthor: me\n", "metadata", {"author": "me"}, "yaml-tab", 4),
        ('name: a\ndescription: "The "best" one"\n', "description", 'The "best" one', "yaml-broken-quotes", 3),
        ("name: a\ndescription: 'It's mine'\n", "description", "It's mine", "yaml-broken-quotes", 3),
        ('name: a\ndescription: "Quoted" and more\n', "description", 'Quoted" and more', "yaml-broken-quotes", 3),
        ('name: a\ndescription: "C:\\path\\qed"\n', "description", "C:\\path\\qed", "yaml-broken-quotes", 3),
        ("name: a\ntags: [ray[train]]x\n", "tags", "[ray[train]]x", "yaml-invalid-flow", 3),
        ("name: a\nargument-hint: [a] [b]\n", "argument-hint", "[a] [b]", "yaml-invalid-flow", 3),
        ("name: a\nx: {{ template }} y\n", "x", "{{ template }} y", "yaml-invalid-flow", 3),
    ],
)
def test_a_known_mistake_is_mended_with_its_line(block: str, key: str, value: object, code: str, line: int) -> None:
    with pytest.raises(yaml.YAMLError):
        yaml.load(block, yaml.CBaseLoader)
    reading = read_block(block, 2)
    assert reading.mapping[key] == value
    assert reading.mapping["name"] == "a"
    assert [(note.code, note.line) for note in reading.notes] == [(code, line)]


@pytest.mark.each(
    "block",
    [
        "name: a\ndescription: 'Use when: asked'\n",
        "name: a\ndescription: >\n  Use when: asked\n  @x\n",
        "name: a\ntags: ['[x', \"y]\"]\n",
        "name: a\nm: {a: b}\n",
        'name: a\nx: "it\'s: fine"\n',
    ],
)
def test_a_valid_block_is_never_repaired(block: str) -> None:
    reading = read_block(block, 2)
    assert reading.mapping == yaml.load(block, yaml.CBaseLoader)
    assert reading.notes == ()


def test_several_mistakes_are_all_mended() -> None:
    block = "name: a\ndescription: Use when: asked\nlicense: @me\ntitle: 'It's: mine'\nhint: [a] [b]\nlast: fine\n"
    reading = read_block(block, 2)
    assert reading.mapping == {
        "name": "a",
        "description": "Use when: asked",
        "license": "@me",
        "title": "It's: mine",
        "hint": "[a] [b]",
        "last": "fine",
    }
    assert sorted((note.code, note.line) for note in reading.notes) == [
        ("yaml-broken-quotes", 5),
        ("yaml-invalid-flow", 6),
        ("yaml-reserved-start", 4),
        ("yaml-unquoted-colon", 3),
    ]


def test_a_colon_in_a_list_item_costs_that_item_only() -> None:
    reading = read_block("name: a\nm:\n  when: Use: it\n  other: fine\nlast: x\n", 2)
    assert reading.mapping == {"name": "a", "m": {"when": "Use: it", "other": "fine"}, "last": "x"}


def test_control_characters_in_a_block_are_dropped_with_a_word() -> None:
    reading = read_block("name: a\ndescription: be\x07ll\x1b[2J\n", 2)
    assert reading.mapping["description"] == "bell[2J"
    assert [(note.code, note.line) for note in reading.notes] == [("control-characters", 3)]


def test_when_no_repair_helps_the_top_level_fields_are_read() -> None:
    block = "name: a\ndescription: Stays.\n}{ nonsense ]\n  - ' x\ntags:\n- one\n- two\n"
    reading = read_block(block, 2)
    assert reading.mapping["name"] == "a"
    assert str(reading.mapping["description"]).startswith("Stays.")
    assert reading.mapping["tags"] == ["one", "two"]
    note = next(note for note in reading.notes if note.code == "yaml-unreadable")
    assert note.line is not None
    assert note.line >= 2


@pytest.mark.covers("O-15")
def test_an_unclosed_quote_costs_one_field() -> None:
    skill = parse(b'---\nname: a\ndescription: "Never closed\nlicense: MIT\n---\nDo it.\n', folder="a").skill
    assert skill.name == "a"
    assert skill.description.startswith("Never closed")
    assert any(note.code.startswith("yaml-") for note in skill.diagnostics)


def test_an_unquoted_colon_does_not_drop_the_skill() -> None:
    skill = parse(b"---\nname: a\ndescription: Use when: asked: often\n---\nDo it.\n", folder="a").skill
    assert skill.description == "Use when: asked: often"
    assert [(note.code, note.line, note.severity) for note in skill.diagnostics] == [
        ("yaml-unquoted-colon", 3, "warning")
    ]


def test_many_broken_lines_end_soon() -> None:
    block = "name: a\n" + "".join(f"k{i}: x: y 'z\n  - @{i}\n" for i in range(1_500))
    assert read_block(block, 2).mapping["name"] == "a"
