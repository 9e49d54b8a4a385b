"""Tool calls against rules: files, addresses, other tools, and what surrounds a command."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from metier import Guard, Policy
from metier.guard import Action, MemoryLog
from metier.guard.tool_rules.matching import forbids, permits
from metier.skill.tool_rules import parse_rules


def allowed(rules: str, tool: str, **arguments: Any) -> bool:
    return permits(parse_rules(rules), tool, arguments, workspace="/nowhere").allowed


def forbidden(rules: str, tool: str, **arguments: Any) -> bool:
    return forbids(parse_rules(rules), tool, arguments, workspace="/nowhere") is not None


@pytest.mark.covers("O-33")
def test_without_rules_nothing_is_allowed_and_nothing_forbidden() -> None:
    assert not permits((), "Read", {"file_path": "x"}).allowed
    assert forbids((), "Read", {"file_path": "x"}) is None


@pytest.mark.covers("O-33")
@pytest.mark.each("tool", ["Read", "read", "READ", "read_file", "view"])
def test_a_bare_rule_allows_every_use_by_any_name_of_the_tool(tool: str) -> None:
    assert allowed("Read", tool, file_path="/etc/passwd")
    assert allowed("read_file", tool)
    assert forbidden("Read", tool)
    assert not allowed("Write", tool, file_path="x")


@pytest.mark.covers("O-34")
def test_a_refusal_names_the_tool_and_what_is_allowed() -> None:
    reason = permits(parse_rules("Read Bash(git:*)"), "WebFetch", {}).reason
    assert reason == "The tool WebFetch is not among what is allowed: Read, Bash(git:*)."
    assert permits((), "Read", {}).reason == "The tool Read is not among what is allowed: nothing."


@pytest.mark.covers("O-34")
def test_a_refusal_names_the_part_that_is_the_problem() -> None:
    rules = parse_rules("Bash(git:*)")
    for command, part in [
        ("git log && curl x | git apply", "`curl x`"),
        ("git log > x", "redirection to `x`"),
        ("git log $(date)", "a command substitution"),
        ("X=1 git log", "an assignment"),
        ("git -c core.pager=x log", "`git -c`"),
        ("git 'log", "a quote is not closed"),
        ("git\r", "U+000D"),
    ]:
        assert part in permits(rules, "Bash", {"command": command}).reason


@pytest.mark.each("text", ["x\x1b[2J\n\u202e" + "y" * 500, "git;\n;", "(git) 'a\nb'", "git '\n", "git -c 'x\n=1' log"])
def test_a_reason_shows_what_cannot_be_seen(text: str) -> None:
    rules = parse_rules("Bash(git:*)")
    for reason in (permits(rules, text, {}).reason, permits(rules, "Bash", {"command": text}).reason):
        assert reason.isprintable() and len(reason) < 400
    found = forbids(parse_rules("Bash(curl:*)"), "Bash", {"command": text})
    assert found is None or found.reason.isprintable()


@pytest.mark.each(
    ("rules", "tool", "arguments", "is_allowed"),
    [
        ("Write(docs/**)", "Write", {"file_path": "docs/a.md"}, True),
        ("Write(docs/**)", "write_file", {"path": "docs/a.md"}, True),
        ("Write(docs/**)", "Write", {"file_path": "/nowhere/docs/a.md"}, True),
        ("Write(docs/**)", "Write", {"file_path": "src/a.md"}, False),
        ("Write(docs/**)", "Write", {"file_path": "docs/a", "path": "src/a"}, False),
        ("Write(docs/**)", "Write", {"paths": ["docs/a", "docs/b"]}, True),
        ("Write(docs/**)", "Write", {"paths": ["docs/a", "b"]}, False),
        ("Write(docs/**)", "Write", {}, False),
        ("Write(docs/**)", "Write", {"file_path": None}, False),
        ("Write(docs/**)", "Write", {"file_path": 5}, False),
        ("Write(docs/**)", "Write", {"file_path": ["docs/a"]}, False),
        ("Write(docs/**)", "Edit", {"file_path": "docs/a"}, False),
        ("Write(docs/**) Write(src/**)", "Write", {"file_path": "src/a"}, True),
        ("NotebookEdit(*.ipynb)", "notebook_edit", {"notebook_path": "a/b.ipynb"}, True),
        ("Read(src/**)", "Grep", {"path": "src"}, False),
        ("Grep(src/**)", "Grep", {"path": "src", "pattern": "x"}, True),
        ("Grep(src/**)", "Grep", {"path": "src/a", "pattern": "x"}, True),
        ("Grep(src/**)", "Grep", {"pattern": "x"}, False),
        ("Grep(src/**)", "Grep", {"path": ".", "pattern": "x"}, False),
        ("Glob(src/**)", "Glob", {"path": "src", "pattern": "**/*.py"}, True),
        ("Glob(src/**)", "Glob", {"path": "src", "pattern": "../*"}, False),
        ("Glob(src/**)", "Glob", {"path": "src", "pattern": "/etc/*"}, False),
        ("LS(src/**)", "list_directory", {"path": "src/a"}, True),
    ],
)
def test_files_are_held_against_patterns(rules: str, tool: str, arguments: dict[str, Any], is_allowed: bool) -> None:
    assert permits(parse_rules(rules), tool, arguments, workspace="/nowhere").allowed is is_allowed


@pytest.mark.each(
    ("rules", "tool", "arguments", "is_forbidden"),
    [
        ("Read(.env)", "Read", {"file_path": "a/.env"}, True),
        ("Read(.env)", "Read", {"file_path": "a/env"}, False),
        ("Read(.env)", "Read", {}, True),
        ("Read(secret/**)", "Read", {"file_path": "x", "path": "secret/y"}, True),
        ("Grep(secret/**)", "Grep", {"pattern": "x"}, True),
        ("Grep(secret/**)", "Grep", {"pattern": "x", "path": "docs"}, False),
        ("Glob(secret/**)", "Glob", {"pattern": "../x"}, True),
        ("Write(/etc/**)", "Bash", {"command": "echo x > /etc/y"}, True),
        ("Edit(/etc/**)", "Bash", {"command": "echo x >> /etc/y"}, True),
        ("Read(.env)", "Bash", {"command": "sort < .env"}, True),
        ("Write(/etc/**)", "Bash", {"command": "echo x > $Y"}, True),
        ("Write(/etc/**)", "Bash", {"command": "echo x > y 2> /dev/null"}, False),
        ("Write(/etc/**)", "Bash", {"command": "sort < /etc/y"}, False),
        ("Write(/etc/**)", "Bash", {"command": "su -c x > /etc/y"}, True),
        ("Write(/etc/**)", "Bash", {"command": "$X > /etc/y"}, True),
        ("Write(/etc/**)", "Bash", {"command": "echo 'unclosed"}, False),
    ],
)
def test_files_are_forbidden_by_patterns(rules: str, tool: str, arguments: dict[str, Any], is_forbidden: bool) -> None:
    assert (forbids(parse_rules(rules), tool, arguments, workspace="/nowhere") is not None) is is_forbidden


@pytest.mark.each(
    ("pattern", "url", "is_allowed"),
    [
        ("domain:example.org", "https://example.org/a?b#c", True),
        ("domain:example.org", "http://EXAMPLE.org:8080/", True),
        ("domain:Example.org", "https://example.org", True),
        ("domain:example.org", "https://www.example.org/", False),
        ("domain:example.org", "https://example.org.evil.net/", False),
        ("domain:example.org", "https://evil.net/example.org", False),
        ("domain:example.org", "https://example.org@evil.net/", False),
        ("domain:example.org", "https://user@example.org/", False),
        ("domain:example.org", "https://example.org\\@evil.net/", False),
        ("domain:example.org", "https://example.org%2eevil.net/", False),
        ("domain:example.org", "https://example.org./", False),
        ("domain:example.org", "https://exаmple.org/", False),  # noqa: RUF001 - a Cyrillic letter
        ("domain:example.org", "ftp://example.org/", False),
        ("domain:example.org", "file:///etc/passwd", False),
        ("domain:example.org", "//example.org/", False),
        ("domain:example.org", "example.org", False),
        ("domain:example.org", "https://example.org\n.evil.net/", False),
        ("domain:example.org", " https://example.org/", False),
        ("domain:example.org", "https://[::1]/", False),
        ("domain:example.org", "https://[", False),
        ("domain:example.org", "https://example.org:x/", False),
        ("domain:example.org", "", False),
        ("domain:*.example.org", "https://a.example.org/", True),
        ("domain:*.example.org", "https://a.b.example.org/", True),
        ("domain:*.example.org", "https://example.org/", False),
        ("domain:*.example.org", "https://evilexample.org/", False),
        ("https://example.org/docs/*", "https://example.org/docs/a", True),
        ("https://example.org/docs/*", "https://EXAMPLE.org/docs/a", True),
        ("https://example.org/docs/*", "https://example.org/other", False),
        ("https://example.org/docs/*", "https://evil.net/https://example.org/docs/", False),
    ],
)
def test_addresses_are_held_against_patterns(pattern: str, url: str, is_allowed: bool) -> None:
    assert allowed(f"WebFetch({pattern})", "web_fetch", url=url) is is_allowed


def test_addresses_are_forbidden_by_domain_and_when_they_are_odd() -> None:
    assert forbidden("WebFetch(domain:evil.net)", "WebFetch", url="https://evil.net/x")
    assert forbidden("WebFetch(domain:evil.net)", "WebFetch", url="https://evil.net./x")
    assert forbidden("WebFetch(domain:evil.net)", "WebFetch", url="https://a@evil.net/x")
    assert forbidden("WebFetch(domain:evil.net)", "WebFetch")
    assert not forbidden("WebFetch(domain:evil.net)", "WebFetch", url="https://example.org/evil.net")


@pytest.mark.each(
    ("arguments", "is_allowed"),
    [
        ({"name": "docs-writer"}, True),
        ({"name": "docs-writer", "count": 3}, True),
        ({"name": "other"}, False),
        ({"name": "docs-writer", "prompt": "x"}, False),
        ({"name": "docs-writer", "more": ["x"]}, False),
        ({}, False),
        ({"count": 3}, False),
    ],
)
def test_other_tools_are_held_against_their_only_text(arguments: dict[str, Any], is_allowed: bool) -> None:
    assert allowed("Task(docs-*)", "Task", **arguments) is is_allowed


def test_other_tools_are_forbidden_by_any_text_in_their_arguments() -> None:
    assert forbidden("Task(docs-*)", "Task", prompt="x", names=[{"one": "docs-writer"}])
    assert not forbidden("Task(docs-*)", "Task", prompt="x", names=["y"])


@pytest.mark.each(
    ("arguments", "is_allowed"),
    [
        ({"command": "git status"}, True),
        ({"cmd": "git status"}, True),
        ({"command": ["git", "status"]}, True),
        ({"command": ["git", "log", "a; curl x", "$(curl x)", ">", "y"]}, True),
        ({"commands": ["git status"]}, False),
        ({"script": ["git", "curl x | sh"]}, False),
        ({"command": ["bash", "-lc", "git status"]}, False),
        ({"command": ["git status"]}, False),
        ({"command": ["curl", "x"]}, False),
        ({"command": ["git", "-c", "core.pager=curl", "log"]}, False),
        ({"command": ["git", "a\0b"]}, False),
        ({"command": ["git", 5]}, False),
        ({"command": []}, False),
        ({"command": {"git": "status"}}, False),
        ({"command": 5}, False),
        ({"command": None}, False),
        ({"command": b"git status"}, False),
        ({}, False),
        ({"line": "git status"}, False),
        ({"command": "git status", "cmd": "curl x"}, False),
        ({"command": "git", "args": ["status"]}, False),
        ({"command": "git status", "env": {"GIT_PAGER": "curl x"}}, False),
        ({"command": "git status", "env": {}}, True),
        ({"command": "git status", "shell": "/tmp/x"}, False),
        ({"command": "git status", "cwd": "sub", "timeout": 5, "description": "x"}, True),
        ({"command": "git status", "cwd": 5}, False),
        ({"command": "git status", "cwd": "a", "workdir": "b"}, False),
        ({"command": "git " + "x" * 20_000}, False),
    ],
)
def test_what_surrounds_a_command_counts(arguments: dict[str, Any], is_allowed: bool) -> None:
    assert allowed("Bash(git:*)", "Bash", **arguments) is is_allowed


@pytest.mark.each("command", [["curl", "x"], ["/usr/bin/curl"], ["sudo", "curl"], ["bash", "-c", "curl x"], 5, []])
def test_words_of_a_command_are_seen_by_rules_that_forbid(command: Any) -> None:
    assert forbidden("Bash(curl:*)", "Bash", command=command)


@pytest.mark.each(
    ("more", "is_forbidden"),
    [
        ({"env": {"GIT_PAGER": "curl x"}}, True),
        ({"environment": {"A": "1", "GIT_EXTERNAL_DIFF": "sh -c 'curl x'"}}, True),
        ({"env": {"LD_PRELOAD": "x.so"}}, True),
        ({"env": {"BASH_FUNC_git%%": "() { curl x; }"}}, True),
        ({"env": {"A": 1}}, True),
        ({"env": ["GIT_PAGER=curl x"]}, True),
        ({"user": "root"}, True),
        ({"args": ["curl"]}, True),
        ({"env": {"INPUT_A": "curl x; $(curl)"}}, False),
        ({"env": {}, "user": None}, False),
    ],
)
def test_what_changes_a_command_is_seen_by_rules_that_forbid(more: dict[str, Any], is_forbidden: bool) -> None:
    assert forbidden("Bash(curl:*)", "Bash", command="git status", **more) is is_forbidden
    assert forbidden("Bash(curl:*)", "Bash", command=["git", "status"], **more) is is_forbidden
    assert forbidden("Write(/etc/**)", "Bash", command="echo x > /etc/y", **more)
    assert not forbidden("Write(/etc/**)", "Bash", command="git status", **more)


def test_words_that_only_mention_a_program_are_not_forbidden() -> None:
    assert not forbidden("Bash(curl:*)", "Bash", command=["git", "commit", "-m", "; curl x"])


def test_options_before_a_subcommand_do_not_hide_it() -> None:
    assert forbidden("Bash(git push:*)", "Bash", command="git -C . --no-pager push --force")
    assert not forbidden("Bash(git push:*)", "Bash", command="git -C push log")


def test_redirections_start_from_the_working_folder(tmp_path: Path) -> None:
    rules = parse_rules("Bash(git:*) Write(out/**)")
    for folder, target, is_allowed in [
        ("", "out/x", True),
        ("out", "x", True),
        ("out", "../x", False),
        ("sub", "out/x", False),
        ("sub", "../out/x", True),
        ("/", "out/x", False),
    ]:
        arguments = {"command": f"git log > {target}", "cwd": folder}
        assert permits(rules, "Bash", arguments, workspace=str(tmp_path)).allowed is is_allowed, (folder, target)


def test_a_redirection_through_a_link_is_seen(tmp_path: Path) -> None:
    (tmp_path / "work" / "out").mkdir(parents=True)
    (tmp_path / "work" / "out" / "way").symlink_to(tmp_path)
    rules = parse_rules("Bash(git:*) Write(out/**)")
    for target, is_allowed in [("out/x", True), ("out/way/x", False)]:
        arguments = {"command": f"git log > {target}"}
        assert permits(rules, "Bash", arguments, workspace=str(tmp_path / "work")).allowed is is_allowed


@pytest.mark.each("end", ["\u00a0", "\r", "\x0b", "\x0c", "\u2028", "\x85"])
def test_a_command_that_is_spelled_out_ends_where_it_ends(end: str) -> None:
    assert allowed("Bash(./b)", "Bash", command="./b")
    assert allowed("Bash(./b)", "Bash", command=" ./b\n")
    assert not allowed("Bash(./b)", "Bash", command=f"./b{end}")
    assert forbidden("Bash(./b)", "Bash", command=f"./b{end}")


def test_arguments_may_be_any_mapping() -> None:
    rules = parse_rules("Bash(git:*) Task(x)")
    assert permits(rules, "Bash", MappingProxyType({"command": "git status"})).allowed
    assert permits(rules, "Task", MappingProxyType({"name": "x"})).allowed


@pytest.mark.covers("SEC-22")
@pytest.mark.each(
    ("rules", "tool", "arguments", "is_allowed"),
    [
        ("Bash(git:*)", "Bash", {"command": "git status", "description": "x", "timeout_ms": 5}, True),
        ("Bash(git:*)", "Bash", {"command": "git status", "run_in_background": True}, True),
        ("Bash(git:*)", "Bash", {"command": "git status", "then": "curl x"}, False),
        ("Bash(git:*)", "Bash", {"command": "git status", "Command": "curl x"}, False),
        ("Bash(git:*)", "Bash", {"command": "git status", "is_input": True}, False),
        ("Bash(git:*)", "Bash", {"command": "git status", "prefix": ["sudo"]}, False),
        ("Bash(git:*)", "Bash", {"command": "git status", "sandbox": "off"}, False),
        ("Bash(git:*)", "Bash", {"command": "git status", "dangerouslyDisableSandbox": True}, False),
        ("Bash(git:*)", "Bash", {"command": "git status", "then": None, "more": ""}, True),
        ("Bash", "Bash", {"command": "git status", "then": "curl x"}, True),
        ("Write(docs/**)", "Write", {"file_path": "docs/a", "content": "x"}, True),
        ("Write(docs/**)", "Write", {"file_path": "docs/a", "content": "x", "target": "src/a"}, False),
        ("Write(docs/**)", "Write", {"file_path": "docs/a", "content": "x", "File_Path": "src/a"}, False),
        ("Write(docs/**)", "Write", {"file_path": "docs/a", "content": "x", "destination": "src/a"}, False),
        ("Write", "Write", {"file_path": "docs/a", "destination": "src/a"}, True),
        ("Edit(docs/**)", "Edit", {"file_path": "docs/a", "old_string": "a", "new_string": "b"}, True),
        ("Edit(docs/**)", "Edit", {"file_path": "docs/a", "edits": [{"old_string": "a", "new_string": "b"}]}, True),
        ("Edit(docs/**)", "Edit", {"file_path": "docs/a", "edits": [{"file_path": "src/a", "new_string": "b"}]}, False),
        ("Edit(docs/**)", "Edit", {"file_path": "docs/a", "edits": [{"where": "src/a"}]}, False),
        ("Edit(docs/**)", "Edit", {"file_path": "docs/a", "patch": "@@ -1 +1 @@\n-a\n+b"}, True),
        ("Edit(docs/**)", "Edit", {"file_path": "docs/a", "patch": "--- a/docs/a\n+++ b/docs/a\n@@ -1 +1 @@"}, True),
        ("Edit(docs/**)", "Edit", {"file_path": "docs/a", "patch": "--- a/src/a\n+++ b/src/a\n@@ -1 +1 @@"}, False),
        ("Read(docs/**)", "Read", {"file_path": "docs/a", "offset": 5, "limit": 9}, True),
        ("Read(docs/**)", "Read", {"file_path": "docs/a", "include_file": "/etc/shadow"}, False),
        ("Grep(src/**)", "Grep", {"path": "src", "pattern": "x", "-n": True, "glob": "*.py"}, True),
        ("Grep(src/**)", "Grep", {"path": "src", "pattern": "x", "glob": "../**"}, False),
        ("WebFetch(domain:x.org)", "WebFetch", {"url": "https://x.org", "prompt": "y"}, True),
        ("WebFetch(domain:x.org)", "WebFetch", {"url": "https://x.org", "proxy": "http://evil"}, False),
        ("WebFetch(domain:x.org)", "WebFetch", {"url": "https://x.org", "headers": {"Host": "evil"}}, False),
    ],
)
def test_no_pattern_allows_an_argument_that_it_does_not_understand(
    rules: str, tool: str, arguments: dict[str, Any], is_allowed: bool
) -> None:
    assert permits(parse_rules(rules), tool, arguments, workspace="/nowhere").allowed is is_allowed


@pytest.mark.covers("SEC-22")
def test_a_refusal_names_the_argument_that_is_not_understood() -> None:
    reason = permits(parse_rules("Bash(git:*)"), "Bash", {"command": "git status", "then": "x"}).reason
    assert reason == "No pattern knows what the argument 'then' of Bash does; leave it out."


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A workspace with links to programs."""
    (tmp_path / "usr").mkdir()
    for name in ("curl", "env", "python3.12"):
        (tmp_path / "usr" / name).write_text("")
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    (work / "fetch").symlink_to("../usr/curl")
    (work / "sub" / "again").symlink_to("../fetch")
    (work / "start").symlink_to(tmp_path / "usr" / "env")
    (work / "py").symlink_to(tmp_path / "usr" / "python3.12")
    (work / "round").symlink_to("round")
    (tmp_path / "out").symlink_to("usr/curl")
    return work


@pytest.mark.covers("SEC-22")
def test_a_link_to_a_forbidden_program_is_forbidden(linked: Path) -> None:
    rules = parse_rules("Bash(curl:*)")
    for command in (
        "./fetch x",
        "sub/again x",
        "cd sub && ./again x",
        "../out x",
        f"{linked.parent}/out x",
        "sudo ./fetch x",
        "./start ./fetch x",
        "./start curl x",
        "git log | ./fetch -T - x",
        "EDITOR=./fetch git commit",
        "./py -m curl",
    ):
        assert forbids(rules, "Bash", {"command": command}, workspace=str(linked)) is not None, command
    for command in ("./round x", "./start git status", "./py -m http.server", "./missing x", "cat ./fetch"):
        assert forbids(rules, "Bash", {"command": command}, workspace=str(linked)) is None, command
    assert forbids(rules, "Bash", {"command": "./again x", "cwd": "sub"}, workspace=str(linked)) is not None


@pytest.mark.covers("SEC-22")
def test_a_link_that_is_made_later_is_seen_at_the_next_call(linked: Path) -> None:
    guard = Guard(Policy(deny="Bash(curl:*)"), audit=MemoryLog())
    action = Action(point="call", tool="Bash", arguments={"command": "./later x"}, workspace=str(linked))
    assert guard.decide(action).is_allowed
    (linked / "later").symlink_to("../usr/curl")
    assert not guard.decide(action).is_allowed


@pytest.mark.each(
    "command", ["python3 -m pip install x", "python -Im pip", "python3 -X dev -mpip", "uv run python -m pip"]
)
def test_a_module_is_the_program_of_its_name_to_rules_that_forbid(command: str) -> None:
    assert forbidden("Bash(pip:*)", "Bash", command=command)
    assert not forbidden("Bash(rm:*)", "Bash", command=command)


def test_a_rule_that_forbids_a_file_starts_from_the_workspace() -> None:
    assert forbidden("Write(docs/**)", "Bash", command="echo x > a", cwd="docs")
    assert not forbidden("Write(docs/**)", "Bash", command="echo x > docs/a", cwd="src")
