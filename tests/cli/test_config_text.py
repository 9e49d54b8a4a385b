"""Changes to configuration files that leave the rest as it was."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from typing import Any

import pytest

from metier.cli.config_text import with_entry
from metier.errors import FileRefused

ENTRY = {"command": "metier", "args": ["mcp"]}


def with_entry_in_json(text: str, section: str, *given: Any, **more: Any) -> str:
    return with_entry(text, "json", (section,), *given, **more)


def with_entry_in_toml(text: str, section: str, *given: Any, **more: Any) -> str:
    return with_entry(text, "toml", (section,), *given, **more)


@pytest.mark.each("text", ["", "  \n", "{}", "{ }\n", "{\n}\n", '{"mcpServers": {}}', "// nothing yet\n"])
def test_an_entry_is_added_to_what_is_empty(text: str) -> None:
    changed = with_entry_in_json(text, "mcpServers", "metier", ENTRY)
    said = "\n".join(line for line in changed.splitlines() if not line.startswith("//"))
    assert json.loads(said) == {"mcpServers": {"metier": ENTRY}}
    assert with_entry_in_json(changed, "mcpServers", "metier", ENTRY) == changed


def test_comments_and_commas_stay_where_they_are() -> None:
    text = """{
    // what we use
    "servers": {
        "other": { "command": "x", /* why */ "args": ["a", "b",], }, // mine
    },
    "inputs": [], // none
}
"""
    changed = with_entry_in_json(text, "servers", "metier", ENTRY)
    assert changed == text.replace(
        "// mine\n",
        '// mine\n        "metier": {\n            "command": "metier",\n            "args": [\n'
        '                "mcp"\n            ]\n        }\n',
    )
    assert with_entry_in_json(changed, "servers", "metier", ENTRY) == changed


def test_an_entry_that_is_there_is_changed_and_keeps_what_else_it_has() -> None:
    text = '{"mcpServers": {"metier": {"command": "old", "env": {"A": "1"}}, "z": {"command": "{"}}, "b": 1}'
    changed = json.loads(with_entry_in_json(text, "mcpServers", "metier", ENTRY))
    assert changed["mcpServers"]["metier"] == {"command": "metier", "env": {"A": "1"}, "args": ["mcp"]}
    assert (changed["mcpServers"]["z"], changed["b"]) == ({"command": "{"}, 1)


def test_lines_end_as_they_did() -> None:
    changed = with_entry_in_json('{\r\n\t"a": "ü"\r\n}\r\n', "mcpServers", "metier", ENTRY)
    assert changed.count("\n") == changed.count("\r\n")
    assert '\r\n\t"mcpServers": {\r\n\t\t"metier"' in changed
    assert '"a": "ü"' in changed


def test_lines_that_end_differently_stay_so() -> None:
    text = '{\r\n "a": 1,\n "b": 2 // c\n}\n'
    changed = with_entry_in_json(text, "mcpServers", "metier", ENTRY)
    assert changed.startswith('{\r\n "a": 1,\n "b": 2, // c\n "mcpServers": {\n')
    assert changed.count("\r") == 1
    toml = 'a = 1\r\nb = 2\n[mcp_servers.metier]\ncommand = "old"\n'
    changed = with_entry_in_toml(toml, "mcp_servers", "metier", ENTRY)
    assert changed.startswith("a = 1\r\nb = 2\n")
    assert changed.count("\r") == 1
    assert with_entry_in_toml("a = 1\r\n", "mcp_servers", "metier", ENTRY).count("\r\n") == 5


def test_comments_in_an_entry_of_ours_stay() -> None:
    text = '{"mcpServers": {"metier": {\n  // why\n  "command": "old", // this one\n  "args": ["mcp"] /* all */\n}}}'
    changed = with_entry_in_json(text, "mcpServers", "metier", {**ENTRY, "type": "stdio"})
    for comment in ("// why", "// this one", "/* all */"):
        assert comment in changed
    assert '"command": "metier", // this one' in changed
    toml = '[mcp_servers.metier]\ncommand = "old#1"  # why\nargs = ["mcp"]\n'
    assert with_entry_in_toml(toml, "mcp_servers", "metier", ENTRY) == toml.replace("old#1", "metier")


def test_a_file_of_comments_keeps_them() -> None:
    assert with_entry_in_json("// hello", "mcpServers", "metier", ENTRY).startswith('// hello\n{\n  "mcpServers"')
    assert with_entry_in_json("/* a */\n", "mcpServers", "metier", ENTRY).startswith('/* a */\n{\n  "mcpServers"')


@pytest.mark.each("change", [with_entry_in_json, with_entry_in_toml])
def test_an_entry_of_somebody_else_is_refused(change: Callable[..., str]) -> None:
    text = {with_entry_in_json: '{"s": {"x": {"url": "y"}}}', with_entry_in_toml: '[s.x]\nurl = "y"\n'}[change]
    with pytest.raises(FileRefused) as caught:
        change(text, "s", "x", ENTRY, is_ours=lambda entry: "url" not in entry)
    assert "--name" in caught.value.hint


@pytest.mark.each(
    "text",
    [
        "{",
        "[]",
        '"text"',
        "{'a': 1}",
        '{"mcpServers": []}',
        '{"mcpServers": null}',
        '{"a": 1} {"b": 2}',
        '{"a": "not closed}',
        "/* not closed",
        "[" * 100_000,
        '{"a":' * 300 + "1" + "}" * 300,
        "key = 1",
        '{"a": 1, \ufeff"b": 2}',
    ],
)
def test_what_cannot_be_changed_safely_is_refused(text: str) -> None:
    with pytest.raises(FileRefused) as caught:
        with_entry_in_json(text, "mcpServers", "metier", ENTRY)
    assert caught.value.hint


@pytest.mark.each(
    "text",
    [
        "",
        "model = 'x' # mine\n",
        "model = 'x'",
        '[mcp_servers.other]\ncommand = "x"\n\n[tui]\ntheme = "dark"\n',
        'text = """\n[mcp_servers.metier]\n"""\n'.replace("[mcp_servers.metier]", "[other]"),
    ],
)
def test_a_table_is_added_to_toml(text: str) -> None:
    changed = with_entry_in_toml(text, "mcp_servers", "metier", ENTRY)
    assert changed.startswith(text)
    before = tomllib.loads(text)
    assert tomllib.loads(changed) == {
        **before,
        "mcp_servers": {**before.get("mcp_servers", {}), "metier": ENTRY},
    }
    assert with_entry_in_toml(changed, "mcp_servers", "metier", ENTRY) == changed


def test_a_table_that_is_there_is_changed_line_by_line() -> None:
    text = """# all of it
[mcp_servers.metier] # ours
# how it is started
command = "old"
args = [
  "a", # first
  "b",
]
startup_timeout_sec = 20

[mcp_servers.metier.env]
A = "1"

[tui]
command = "not this"
"""
    changed = with_entry_in_toml(text, "mcp_servers", "metier", ENTRY)
    assert changed == text.replace('command = "old"', 'command = "metier"').replace(
        'args = [\n  "a", # first\n  "b",\n]', 'args = ["mcp"]'
    )


@pytest.mark.each(
    "text",
    [
        "mcp_servers = { other = { command = 'x' } }\n",
        "[mcp_servers]\nmetier = { command = 'x' }\n",
        "mcp_servers = 1\n",
        "= broken",
        '[[mcp_servers]]\ncommand = "x"\n',
        "x = '''\n[mcp_servers.metier]\n'''\n",
    ],
)
def test_toml_that_is_written_otherwise_is_refused(text: str) -> None:
    with pytest.raises(FileRefused) as caught:
        with_entry_in_toml(text, "mcp_servers", "metier", ENTRY)
    assert caught.value.hint


@pytest.mark.each("word", ['"', "\\", "\n", "\x7f", "ü", "🙂", "a'b", "\t"])
def test_every_argument_survives(word: str) -> None:
    entry = {"command": "metier", "args": ["--skills", word]}
    assert tomllib.loads(with_entry_in_toml("", "mcp_servers", "metier", entry))["mcp_servers"]["metier"] == entry
    assert json.loads(with_entry_in_json("", "mcpServers", "metier", entry))["mcpServers"]["metier"] == entry
