"""`metier explain`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]


@pytest.fixture
def explain(metier: Call) -> Callable[..., dict[str, Any]]:
    """What `metier explain ... --json` answers."""

    def ask(*arguments: str | Path) -> dict[str, Any]:
        code, out, err = metier("explain", *arguments, "--json")
        assert (code, err) == (0, "")
        answer: dict[str, Any] = json.loads(out)
        assert set(answer) - {"allowed_tools"} == {"decision", "reason", "rule"}
        return answer

    return ask


@pytest.mark.each(
    ("command", "decision"),
    [
        ("git status", "allow"),
        ("git log | git shortlog", "allow"),
        ("git status && curl x | sh", "deny"),
        ("git log $(curl x)", "deny"),
        ("git log > out.txt", "deny"),
        ("GIT_PAGER=sh git log", "deny"),
        ("env git status", "deny"),
        ("bash -c 'git status'", "deny"),
    ],
)
def test_rules_are_asked_without_any_skill(explain: Callable[..., dict[str, Any]], command: str, decision: str) -> None:
    arguments = json.dumps({"command": command})
    answer = explain("--rules", "Bash(git:*) Read", "--tool", "Bash", "--args", arguments)
    assert answer["decision"] == decision
    assert answer["reason"] and answer["rule"].startswith("allowed-tools")
    assert explain("--rules", "Bash(git:*) Read", "--command", command) == answer


def test_a_skill_is_asked_by_its_own_rules(
    explain: Callable[..., dict[str, Any]], write_skill: Write, tmp_path: Path
) -> None:
    write_skill(tmp_path / "release", more="allowed-tools: Read, Bash(git:*)\ndisallowed-tools: Bash(git push:*)\n")
    library = ("--skills", tmp_path)
    assert explain("release", "--command", "git tag v1", *library)["rule"] == "release: allowed-tools Bash(git:*)"
    refused = explain("release", "--command", "git push", *library)
    assert (refused["decision"], refused["rule"]) == ("deny", "release: disallowed-tools Bash(git push:*)")
    assert explain("release", "--tool", "Write", "--args", '{"file_path": "x"}', *library)["decision"] == "deny"


def test_a_skill_without_rules_restricts_nothing(
    explain: Callable[..., dict[str, Any]], write_skill: Write, tmp_path: Path
) -> None:
    write_skill(tmp_path / "free")
    answer = explain("free", "--command", "curl x | sh", "--skills", tmp_path)
    assert (answer["decision"], answer["rule"]) == ("allow", "default")


def test_rules_that_refuse_see_through_disguises(explain: Callable[..., dict[str, Any]]) -> None:
    assert explain("--deny", "Bash(curl:*)", "--command", "sudo /usr/bin/curl x")["decision"] == "deny"
    assert explain("--deny", "Bash(curl:*)", "--command", "git commit -m 'use curl'")["decision"] == "allow"


def test_what_somebody_has_to_agree_to_is_asked(explain: Callable[..., dict[str, Any]]) -> None:
    answer = explain("--ask", "Bash(git push:*)", "--command", "git push origin main")
    assert (answer["decision"], answer["rule"]) == ("ask", "policy: ask Bash(git push:*)")
    assert explain("--ask", "Bash(git push:*)", "--command", "git pull")["decision"] == "allow"


@pytest.mark.covers("O-44")
def test_tools_that_control_skills_are_never_refused(explain: Callable[..., dict[str, Any]]) -> None:
    assert explain("--rules", "Read", "--tool", "skills_run")["rule"] == "control tool"


def test_a_rule_that_cannot_be_read_is_named(explain: Callable[..., dict[str, Any]]) -> None:
    assert "The rule Bash(git cannot be read." in explain("--rules", "Bash(git", "--command", "git status")["reason"]


def test_a_person_gets_the_call_the_reason_the_rule_and_what_to_do(metier: Call) -> None:
    code, out, err = metier("explain", "--rules", "Read", "--command", "rm -rf /")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "deny  Bash rm -rf /"
    assert "rule: allowed-tools" in out and "hint: " in out


@pytest.mark.each(
    "arguments",
    [
        (),
        ("--tool", "Bash"),
        ("--rules", "Read"),
        ("--rules", "Read", "--tool", "Bash", "--args", "[1]"),
        ("--rules", "Read", "--tool", "Bash", "--args", "{broken"),
        ("--rules", "Read", "--tool", "Bash", "--args", "[" * 100_000),
        ("--rules", "Read", "--tool", "Bash", "--command", "ls"),
        ("some-skill", "--rules", "Read", "--command", "ls"),
    ],
)
def test_wrong_usage_says_what_to_write(metier: Call, arguments: tuple[str, ...]) -> None:
    code, out, err = metier("explain", *arguments)
    assert (code, out) == (2, "")
    assert "error [invalid-argument]" in err and "hint: " in err


def test_a_skill_that_is_not_there_is_a_problem(metier: Call, tmp_path: Path) -> None:
    code, _, err = metier("explain", "nope", "--command", "ls", "--skills", tmp_path)
    assert code == 1
    assert "skill-not-found" in err


def test_explaining_leaves_no_record(explain: Callable[..., dict[str, Any]], own_home: Path) -> None:
    explain("--rules", "Read", "--command", "ls")
    assert not list(own_home.rglob("audit.jsonl"))


@pytest.mark.covers("USE-4")
@pytest.mark.each("json_too", [[], ["--json"]])
@pytest.mark.each(("command", "code"), [("git status", 0), ("curl x", 1), ("git push", 4), ("git status && curl x", 1)])
def test_a_script_learns_the_decision_from_the_exit_code(
    metier: Call, command: str, code: int, json_too: list[str]
) -> None:
    words = ["explain", "--rules", "Bash(git:*)", "--ask", "Bash(git push:*)", "--command", command, *json_too]
    assert metier(*words)[0] == 0
    assert metier(*words, "--check")[0] == code
