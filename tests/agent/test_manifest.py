"""`agent.yaml`: what an agent is, and what is said about one that cannot be read."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.agent import Manifest, parse_manifest, read_manifest
from metier.errors import AgentInvalid

FULL = """\
id: clerk
name: Clerk
description: >-
  Answers questions
  about invoices.
model: openai:gpt-5
uses_skills: [invoices, tone@acme]
uses_tools:
  - Read
  - lookup_invoice
catalog: all
depends_on: [archive]
limits:
  max_turns: 12
integration_mode: tool
instructions: |
  Be brief.
  Name the invoice.
"""


def refused(text: str, folder: str = "agents/clerk") -> AgentInvalid:
    with pytest.raises(AgentInvalid) as caught:
        parse_manifest(text, folder=folder)
    assert caught.value.hint, "says what to do"
    return caught.value


def test_every_field_is_read() -> None:
    assert parse_manifest(FULL, folder="agents/x", prompt="Hello.") == Manifest(
        id="clerk",
        name="Clerk",
        description="Answers questions about invoices.",
        model="openai:gpt-5",
        instructions="Be brief.\nName the invoice.",
        prompt="Hello.",
        uses_tools=("Read", "lookup_invoice"),
        uses_skills=("invoices", "tone@acme"),
        catalog="all",
        depends_on=("archive",),
        max_turns=12,
        integration_mode="tool",
        folder="agents/x",
    )


@pytest.mark.covers("Y-30")
def test_without_fields_there_are_defaults() -> None:
    assert parse_manifest("", folder="agents/clerk") == Manifest(id="clerk", name="clerk", folder="agents/clerk")


@pytest.mark.covers("Y-14")
@pytest.mark.each(
    ("text", "catalog"),
    [
        ("", "all"),
        ("uses_skills: [a]", "own"),
        ("uses_skills: [a]\ncatalog: all", "all"),
        ("catalog: own", "own"),
        ("uses_skills: []", "all"),
    ],
)
def test_an_agent_with_skills_of_its_own_sees_only_those_unless_it_says_otherwise(text: str, catalog: str) -> None:
    assert parse_manifest(text, folder="a").catalog == catalog


@pytest.mark.each(
    ("empty", "field"),
    list(
        itertools.product(
            ["", "~", "null", '""'], ["name", "model", "uses_skills", "uses_tools", "depends_on", "limits", "catalog"]
        )
    ),
)
def test_a_field_without_a_value_is_as_good_as_absent(field: str, empty: str) -> None:
    assert parse_manifest(f"{field}: {empty}", folder="a") == parse_manifest("", folder="a")


@pytest.mark.each("name", ["on", "1.10", "0x1f", "2026-01-01"])
def test_what_is_written_stays_what_it_is(name: str) -> None:
    assert parse_manifest(f"name: {name}", folder="a").name == name


@pytest.mark.each(
    ("text", "line", "said", "hint"),
    [
        ("name: [a]", 1, "`name` is a list where text is expected", "name: some text"),
        ("\nname: {a: b}", 2, "`name` is a map where text is expected", "name: some text"),
        ("name: a\nuses_skills: invoices", 2, "`uses_skills` is text where a list is expected", "[invoices]"),
        ("uses_skills: {a: b}", 1, "`uses_skills` is a map", "[pdf-forms]"),
        ("uses_skills: [[a]]", 1, "has a list, which is no name", "pdf-forms"),
        ("uses_skills: [a, b, a]", 1, "'a' twice", "Keep one"),
        ("uses_tools: ['Bash(git:*)']", 1, "'Bash(git:*)', which is no name", "Read"),
        ("depends_on: [../a]", 1, "'../a', which is no name", "orchestrator"),
        ("id: My Agent", 1, "'My Agent' is no id", "id: my-agent"),
        ("id: ../x", 1, "'../x' is no id", "id: x"),
        ("id: agents", 1, "stands for all agents", "another"),
        ("catalog: mine", 1, "`catalog` cannot be 'mine'", "own or all"),
        ("integration_mode: Tool", 1, "cannot be 'Tool'", "none or tool"),
        ("integration_mode: tool", 1, "needs a description", "description:"),
        ("limits: 5", 1, "`limits` is text", "{max_turns: 20}"),
        ("limits: {max_turns: 0}", 1, "cannot be 0", "from 1 to 1,000"),
        ("limits: {max_turns: 1e3}", 1, "cannot be 1e3", "whole number"),
        ("limits: {max_turns: ٣}", 1, "cannot be ٣", "whole number"),
        ("limits: {max_turns: [1]}", 1, "cannot be a list", "whole number"),
        ("limits: {max_turn: 1}", 1, "no field 'limits.max_turn'", "`max_turns`"),
        ("name: a\nuse_skills: [a]", 2, "no field 'use_skills'", "Did you mean `uses_skills`?"),
        ("uses-tools: [a]", 1, "no field 'uses-tools'", "Did you mean `uses_tools`?"),
        ("zzzzzz: 1", 1, "no field 'zzzzzz'", "Fields are id, name"),
        ("<<: {a: b}", 1, "no field '<<'", "Fields are"),
        ("name: a\nmodel: b\nname: c", 3, "'name' is given twice", "Keep one"),
        ("limits:\n  max_turns: 1\n  max_turns: 2", 3, "'max_turns' is given twice", "Keep one"),
        ("- a\n- b", 1, "not a list of `key: value` fields", "name:"),
        ("name: a\n  b: c", 2, "The YAML cannot be read", "plain"),
        ("name: a\n\tmodel: b", 2, "The YAML cannot be read", "plain"),
        ("name: *x", 1, "The YAML cannot be read", "plain"),
        ("name: a\n---\nname: b", 2, "The YAML cannot be read", "plain"),
        ("name: \x00", 1, "The YAML cannot be read", "plain"),
        ('name: "a\\x1bb"', 1, "control characters", "Remove"),
        (f"description: {'x' * 1025}", 1, "1,025 characters", "at most 1,024"),
        (f"uses_skills: [{', '.join(f'a{n}' for n in range(65))}]", 1, "65 items", "at most 64"),
    ],
)
def test_what_is_wrong_is_said_with_its_line_and_what_to_write(text: str, line: int, said: str, hint: str) -> None:
    error = refused(text)
    assert error.message.startswith(f"{os.path.join('agents/clerk', 'agent.yaml')}, line {line}: ")
    assert said in error.message
    assert hint in error.hint


def test_a_folder_that_cannot_be_an_id_needs_one() -> None:
    error = refused("name: a", folder="agents/My_Agent")
    assert "'My_Agent' is no id" in error.message
    assert "id: my-agent" in error.hint


def test_few_lines_cannot_stand_for_a_billion() -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert "too large once its aliases are followed" in refused(bomb).message


@pytest.mark.each("text", ["[" * 10_000, "a: " + "{a: " * 500 + "}" * 500, "a: &a [*a]", "x" * 70_000])
def test_what_is_too_deep_or_too_large_is_refused(text: str) -> None:
    refused(text)


def test_what_it_says_of_a_stranger_s_text_is_printable() -> None:
    assert refused('"a\\u202eb\\x1b[2J": 1').message.isprintable()


@given(st.text(max_size=200) | st.text(alphabet="ab:-[]{}&*!|>'\" \n#,~", max_size=60))
def test_any_text_is_an_agent_or_an_error_with_a_hint(text: str) -> None:
    try:
        manifest = parse_manifest(text, folder="a")
    except AgentInvalid as error:
        assert error.hint
        assert error.message.isprintable()
    else:
        assert manifest.id


_values = st.recursive(
    st.text(alphabet="abz-9 /", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=3), inner, max_size=2),
)


@given(
    st.dictionaries(
        st.sampled_from(
            ["id", "name", "description", "model", "uses_tools", "uses_skills", "catalog", "limits", "depends_on"]
        ),
        _values,
    )
)
def test_any_values_give_an_agent_or_an_error_with_a_hint(fields: dict[str, object]) -> None:
    import yaml

    try:
        manifest = parse_manifest(yaml.safe_dump(fields), folder="a")
    except AgentInvalid as error:
        assert error.hint
    else:
        assert all(isinstance(name, str) for name in (*manifest.uses_tools, *manifest.uses_skills))


# --- on disk -------------------------------------------------------------------------------------------------------


def test_a_folder_without_agent_yaml_declares_none(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None


def test_the_prompt_beside_it_comes_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "clerk"
    folder.mkdir()
    (folder / "agent.yaml").write_bytes(b"\xef\xbb\xbfname: Clerk\r\nmodel: x\r\n")
    (folder / "prompt.jinja2").write_text("Hello {{ user }}.")
    manifest = read_manifest(folder)
    assert manifest is not None
    assert (manifest.id, manifest.name, manifest.prompt) == ("clerk", "Clerk", "Hello {{ user }}.")


@pytest.mark.parametrize(
    ("data", "said"), [(b"name: \xff", "byte 6 is not UTF-8"), (b"#" * 70_000, "more than 65,536 bytes")]
)
@pytest.mark.parametrize("file", ["agent.yaml", "prompt.jinja2"])
def test_a_file_that_is_no_text_or_too_large_is_refused(tmp_path: Path, data: bytes, said: str, file: str) -> None:
    (tmp_path / "agent.yaml").write_text("id: a")
    (tmp_path / file).write_bytes(data)
    with pytest.raises(AgentInvalid, match=said) as caught:
        read_manifest(tmp_path)
    assert file in caught.value.message


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes and links")
@pytest.mark.parametrize("file", ["agent.yaml", "prompt.jinja2"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_plain_file_inside_is_refused(tmp_path: Path, kind: str, file: str) -> None:
    (tmp_path / "secret").write_text("name: secret")
    folder = tmp_path / "clerk"
    folder.mkdir()
    if file != "agent.yaml":
        (folder / "agent.yaml").write_text("name: Clerk")
    if kind == "link":
        (folder / file).symlink_to(tmp_path / "secret")
    elif kind == "pipe":
        os.mkfifo(folder / file)
    else:
        (folder / file).mkdir()
    with pytest.raises(AgentInvalid, match="no plain file inside its folder"):
        read_manifest(folder)
