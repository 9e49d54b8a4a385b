"""Rules from what skills and policies write, and the names that they go by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.guard.tool_rules.matching import forbids, permits
from metier.skill.tool_rules import MAX_PATTERN, ToolRule, canonical_tool, parse_rules


def pairs(value: object) -> list[tuple[str, str | None]]:
    return [(rule.tool, rule.pattern) for rule in parse_rules(value)]  # type: ignore[arg-type]


@pytest.mark.covers("O-33")
@pytest.mark.each(
    ("value", "rules"),
    [
        (None, []),
        ("", []),
        ([], []),
        ("Read", [("read", None)]),
        ("Read, Write", [("read", None), ("write", None)]),
        ("Read Write\nGrep", [("read", None), ("write", None), ("grep", None)]),
        (["Read", "Bash(git add:*)"], [("read", None), ("bash", "git add:*")]),
        (("Read",), [("read", None)]),
        ("[Read, Write]", [("read", None), ("write", None)]),
        ("Bash(git add:*), Bash(git log a,b)", [("bash", "git add:*"), ("bash", "git log a,b")]),
        ("Bash(cd x; make)", [("bash", "cd x; make")]),
        ("Bash(find . -exec y \\;)", [("bash", "find . -exec y \\;")]),
        ("Bash(find . \\( -name x \\))", [("bash", "find . \\( -name x \\)")]),
        ("Bash(*) Read( * )", [("bash", None), ("read", None)]),
        ("Bash (git:*) Read (docs/**)", [("bash", "git:*"), ("read", "docs/**")]),
        ("Bash( git:* )", [("bash", "git:*")]),
        ("mcp__files__* mcp__web", [("mcp__files__*", None), ("mcp__web", None)]),
        ("*", [("*", None)]),
        ("Read Read read_file", [("read", None), ("read", None)]),
    ],
)
def test_rules_are_read_from_lists_and_text(value: object, rules: list[tuple[str, str | None]]) -> None:
    assert pairs(value) == rules


@pytest.mark.each(
    ("text", "tool"),
    [
        ("Bash(git", "bash"),
        ("Bash(git:*, Read", "bash"),
        ("Bash)", "bash"),
        ("Bash(git))", "bash"),
        ("Bash()", "bash"),
        ("Bash( )", "bash"),
        ("Bash(:*)", "bash"),
        ("Bash( | sh)", "bash"),
        ("Bash(a)b", "bash"),
        ("Bash(a\x00b)", "bash"),
        (f"Bash({'x' * (MAX_PATTERN + 1)})", "bash"),
        ("Ba*", "ba*"),
        ("Bash(rm:*,curl:*)", "bash"),
        ("Bash(rm:*; curl:*)", "bash"),
        ("Bash(rm -rf; curl:*)", "bash"),
        ("Bash(rm, curl)", "bash"),
        ("Bash(rm: *)", "bash"),
        ("Bash(rm:)", "bash"),
        ("Bash('rm:*')", "bash"),
        ("Bash(git push: *)", "bash"),
        ("Bash(git push, git fetch:*)", "bash"),
        ("Bash(rm:* curl:*)", "bash"),
        ("Bash(rm|curl:*)", "bash"),
        ("Bash(rm:* || curl:*)", "bash"),
        ("Bash(rm:**)", "bash"),
        ("Bash(rm\\:*)", "bash"),
        ("Bash(rm:-rf)", "bash"),
        ("Bash(`rm`)", "bash"),
        ("*(x)", "*"),
        ("mcp__*__x", "mcp__*__x"),
    ],
)
def test_a_malformed_rule_allows_nothing_and_forbids_its_tool(text: str, tool: str) -> None:
    rules = parse_rules(text)
    assert rules[0].tool == tool and all(rule.is_malformed for rule in rules)
    assert not permits(rules, "Bash", {"command": "git"}).allowed
    if tool == "bash":
        found = forbids(rules, "Bash", {"command": "git"})
        assert found is not None and found.rule == rules[0]


@pytest.mark.each("text", ["Bash[rm:*]", "Bash{rm:*}", "Bash:rm"])
def test_what_stands_in_other_brackets_forbids_its_tool(text: str) -> None:
    assert forbids(parse_rules(text), "Bash", {"command": "git"}) is not None
    assert not permits(parse_rules(text), "Bash", {"command": "rm"}).allowed


def test_what_a_missing_parenthesis_swallows_stays_forbidden() -> None:
    rules = parse_rules("Bash(rm:*, WebFetch, Write(x)")
    for tool in ("Bash", "WebFetch", "Write"):
        assert forbids(rules, tool, {"file_path": "y", "url": "https://x.org", "command": "git"}) is not None
        assert not permits(rules, tool, {"file_path": "y"}).allowed


@pytest.mark.covers("O-33")
@pytest.mark.each("value", ["Bash,(git:*)", "Bash;(git:*)", "Bash, (git:*)", ["Bash", "(git:*)"], ["Bash ", " (x)"]])
def test_a_pattern_that_lost_its_name_does_not_leave_the_whole_tool(value: object) -> None:
    rules = parse_rules(value)  # type: ignore[arg-type]
    for command in ("git status", "touch x"):
        assert not permits(rules, "Bash", {"command": command}).allowed
        assert forbids(rules, "Bash", {"command": command}) is not None


def test_a_pattern_that_lost_its_name_spoils_no_other_rule() -> None:
    rules = parse_rules(["Read", "Bash", "(git:*)", "Write"])
    assert [(rule.tool, rule.is_malformed) for rule in rules if rule.tool in ("read", "bash", "write")] == [
        ("read", False),
        ("bash", True),
        ("write", False),
    ]


def test_a_rule_keeps_what_was_written() -> None:
    assert [rule.text for rule in parse_rules("Bash(git:*), READ")] == ["Bash(git:*)", "READ"]


@pytest.mark.covers("O-33")
@pytest.mark.each(
    ("name", "canonical"),
    [
        ("Bash", "bash"),
        ("BASH", "bash"),
        ("bash_exec", "bash"),
        ("run_shell_command", "bash"),
        ("execute_command", "bash"),
        ("Read", "read"),
        ("read_file", "read"),
        ("create_file", "write"),
        ("MultiEdit", "edit"),
        ("str_replace", "edit"),
        ("apply_patch", "edit"),
        ("text_editor", "edit"),
        ("web_fetch", "webfetch"),
        ("NotebookEdit", "notebookedit"),
        ("My_Tool", "my_tool"),
        ("functions.Bash", "functions.bash"),
        ("Bash ", "bash "),
        ("Ваsh", "Ваsh"),  # noqa: RUF001 - Cyrillic letters
        ("Ba\u017fh", "Ba\u017fh"),
        ("Tas\u212a", "Tas\u212a"),
        ("", ""),
    ],
)
def test_a_tool_goes_by_one_name(name: str, canonical: str) -> None:
    assert canonical_tool(name) == canonical


@pytest.mark.covers("O-33")
@pytest.mark.each(
    ("rule", "tool", "is_named"),
    [
        ("Bash", "bash", True),
        ("Bash", "bashful", False),
        ("mcp__files__*", "mcp__files__read", True),
        ("mcp__files__*", "mcp__files", False),
        ("mcp__files__*", "mcp__files2__read", False),
        ("mcp__files", "mcp__files__read", True),
        ("mcp__files", "mcp__files2__read", False),
        ("mcp__files__read", "mcp__files__read", True),
        ("mcp__files__read", "mcp__files__read__more", False),
        ("MCP__Files__Read", "mcp__files__read", True),
        ("*", "anything", True),
    ],
)
def test_a_rule_is_about_its_tool_alone(rule: str, tool: str, is_named: bool) -> None:
    assert parse_rules(rule)[0].names(tool) is is_named
    assert permits(parse_rules(rule), tool, {"x": 1}).allowed is is_named


@given(st.text(alphabet="Bash(git:*), Read)|\n\0[]*mcp_", max_size=40))
def test_any_text_gives_rules_that_can_be_asked(text: str) -> None:
    rules = parse_rules(text)
    assert all(isinstance(rule, ToolRule) and rule.tool for rule in rules)
    arguments = {"command": "git status"}
    assert isinstance(permits(rules, "Bash", arguments).allowed, bool)
    forbids(rules, "Bash", arguments)
