"""The tier of rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from metier.proof.report import TierResult
from metier.proof.runner import TestSettings, test_skills
from metier.proof.suite import RuleCase, Suite
from metier.testing import library, skill


def rules_of(*cases: RuleCase, tools: str = "Read, Bash(git:*), mcp__crm__*") -> TierResult:
    skills = library(skill("release", allowed_tools=tools))
    ((found,),) = (
        one.tiers
        for one in test_skills(skills, skills, TestSettings(tiers=("rules",), suite=Suite(rules=cases))).skills
    )
    return found


CASES: list[tuple[str, dict[str, Any], str, str]] = [
    ("Bash", {"command": "git tag v1"}, "allow", "skill"),
    ("run_shell_command", {"command": "git tag v1"}, "allow", "skill"),
    ("Bash", {"command": "git tag v1 && rm -rf ."}, "deny", "skill"),
    ("Write", {"file_path": "notes.md"}, "deny", "skill"),
    ("mcp__crm__find", {}, "allow", "skill"),
    ("Write", {"file_path": ".git/config"}, "deny", "built-in"),
]


@pytest.mark.each(("tool", "arguments", "expect", "by"), CASES)
def test_the_guard_is_asked_and_says_by_which_rule(tool: str, arguments: dict[str, Any], expect: Any, by: str) -> None:
    result = rules_of(RuleCase(id="1", tool=tool, arguments=arguments, expect=expect))
    assert (result.verdict, result.cases[0].data["decided_by"]) == ("passed", by)


def test_another_decision_fails_with_the_reason_of_the_guard() -> None:
    (found,) = rules_of(RuleCase(id="1", tool="Bash", arguments={"command": "rm x"}, expect="allow")).cases
    assert found.verdict == "failed"
    assert found.reason.startswith("It is denied, and should be allowed: Skill 'release' cannot use tool 'Bash'.")
    assert found.data["rule"] == "release: allowed-tools"


def test_a_call_that_is_allowed_and_should_not_be_has_a_hint() -> None:
    (found,) = rules_of(RuleCase(id="1", tool="Bash", arguments={"command": "git push"}, expect="deny")).cases
    assert (
        found.reason
        == "It is allowed, and should be denied: Bash(git:*) allows it. (release: allowed-tools Bash(git:*))"
    )
    assert "allowed-tools" in found.hint


def test_the_policy_of_this_machine_counts_and_is_named(own_home: Path) -> None:
    (own_home / ".metier").mkdir()
    (own_home / ".metier" / "policy.yaml").write_text('version: 1\ntools:\n  deny: ["Bash(git push:*)"]\n')
    case = RuleCase(id="1", tool="Bash", arguments={"command": "git push origin"}, expect="deny")
    (found,) = rules_of(case).cases
    assert (found.verdict, found.data["decided_by"]) == ("passed", "policy")
    assert "policy.yaml:3" in found.data["rule"]


def test_a_skill_that_cannot_be_loaded_fails_all_its_cases(own_home: Path) -> None:
    (own_home / ".metier").mkdir()
    (own_home / ".metier" / "policy.yaml").write_text("version: 1\nskills:\n  deny: [release]\n")
    result = rules_of(RuleCase(id="1", tool="Read"), RuleCase(id="2", tool="Read"))
    assert [case.verdict for case in result.cases] == ["failed", "failed"]
    assert result.cases[0].reason


def test_a_suite_without_rules_says_so() -> None:
    assert rules_of().reason == "The suite has no case of this tier."
