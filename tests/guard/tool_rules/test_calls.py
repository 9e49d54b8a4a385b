"""Decisions about tool calls: the policy, and the ceiling of every active skill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from metier import Guard, Policy
from metier.errors import InvalidArgument
from metier.guard import Action, Decision, MemoryLog
from metier.guard.decision import Ceiling
from metier.hints import for_model
from metier.session import RUNTIME
from metier.skill.tool_rules import parse_rules


def ceiling(owner: str = "s", allowed: str | None = None, disallowed: str = "", **more: Any) -> Ceiling:
    rules = None if allowed is None else parse_rules(allowed)
    return Ceiling(owner=owner, allowed=rules, disallowed=parse_rules(disallowed), **more)


def decided(
    tool: str, *ceilings: Ceiling, policy: Policy | None = None, is_control: bool = False, **arguments: Any
) -> Decision:
    action = Action(point="call", tool=tool, arguments=arguments, ceilings=ceilings, is_control=is_control)
    return Guard(policy, audit=MemoryLog()).decide(action)


@pytest.mark.covers("O-33")
@pytest.mark.each(
    ("allowed", "tool", "arguments", "outcome"),
    [
        (None, "Anything", {}, "allow"),
        ("", "Read", {}, "deny"),
        ("Read", "read", {}, "allow"),
        ("read", "READ", {}, "allow"),
        ("Read", "Write", {}, "deny"),
        ("Bash(git:*)", "Bash", {"command": "git status"}, "allow"),
        ("Bash(git:*)", "bash_exec", {"command": "git status"}, "allow"),
        ("Bash(git:*)", "Bash", {"command": "git status && curl x"}, "deny"),
        ("Bash(git:*)", "Bash", {}, "deny"),
    ],
)
def test_a_ceiling_allows_what_it_lists(
    allowed: str | None, tool: str, arguments: dict[str, Any], outcome: str
) -> None:
    assert decided(tool, ceiling(allowed=allowed), **arguments).outcome == outcome


@pytest.mark.covers("O-40")
@pytest.mark.each("order", [1, -1])
def test_every_ceiling_counts(order: int) -> None:
    ceilings = [ceiling("a", "Read, Grep"), ceiling("b", "Read, Write"), ceiling("c")][::order]
    outcomes = {tool: decided(tool, *ceilings).outcome for tool in ("Read", "Grep", "Write", "Bash")}
    assert outcomes == {"Read": "allow", "Grep": "deny", "Write": "deny", "Bash": "deny"}


@pytest.mark.each(
    ("policy", "outcome", "rule"),
    [
        (Policy(), "allow", "s: allowed-tools Bash(git:*)"),
        (Policy(deny="Bash(git push:*)"), "deny", "policy: deny Bash(git push:*)"),
        (Policy(allow="Read"), "deny", "policy: allow"),
        (Policy(allow="Bash"), "allow", "s: allowed-tools Bash(git:*)"),
        (Policy(ask="Bash(git push:*)"), "ask", "policy: ask Bash(git push:*)"),
        (Policy(ask="Bash", deny="Bash"), "deny", "policy: deny Bash"),
        (Policy(allow="Read", ask="Bash"), "deny", "policy: allow"),
    ],
)
def test_a_policy_narrows_what_a_skill_allows(policy: Policy, outcome: str, rule: str) -> None:
    decision = decided("Bash", ceiling(allowed="Bash(git:*)"), policy=policy, command="git push")
    assert (decision.outcome, decision.rule) == (outcome, rule)


def test_a_policy_never_widens_what_a_skill_allows() -> None:
    decision = decided("Write", ceiling(allowed="Read"), policy=Policy(allow="Write"))
    assert (decision.outcome, decision.rule) == ("deny", "s: allowed-tools")


def test_a_malformed_rule_allows_nothing_forbids_its_whole_tool_and_is_named() -> None:
    refused = decided("Bash", ceiling(allowed="Bash(git"), command="git status")
    assert refused.outcome == "deny" and "The rule Bash(git cannot be read." in refused.reason
    assert decided("Bash", ceiling(disallowed="Bash(git"), command="ls").outcome == "deny"


@pytest.mark.each("field", ["allow", "ask", "deny"])
def test_a_policy_with_a_malformed_rule_is_refused(field: str) -> None:
    with pytest.raises(InvalidArgument, match=r"Bash\(curl"):
        Policy(**{field: "Read, Bash(curl:*"})  # type: ignore[arg-type]


@pytest.mark.each("rule", ["Bash(curl)", "Bash(curl:*)", "Bash(curl *)", "Bash(/usr/bin/curl:*)"])
def test_whoever_forbids_a_program_forbids_it_with_any_arguments(rule: str) -> None:
    assert decided("Bash", policy=Policy(deny=rule), command="curl -s example.com").outcome == "deny"
    assert decided("Bash", policy=Policy(deny=rule), command="curlew x").outcome == "allow"


@pytest.mark.covers("O-34")
def test_a_refusal_says_who_what_and_what_is_allowed() -> None:
    decision = decided("write", ceiling("careful", "read, grep"))
    assert decision.code == "tool-not-allowed"
    assert "'careful' cannot use tool 'write'" in decision.reason
    assert "read, grep" in decision.reason
    assert decision.hint
    assert "No tools are allowed" in decided("write", ceiling("careful", "")).reason


@pytest.mark.covers("O-44")
def test_tools_that_control_skills_are_exempt() -> None:
    policy = Policy(allow="", deny="*", ask="*")
    decision = decided("skills_load", ceiling(allowed="", disallowed="*"), policy=policy, is_control=True)
    assert decision.outcome == "allow"


@pytest.mark.each(("field", "outcome"), [("deny", "deny"), ("ask", "ask")])
def test_a_policy_can_name_a_tool_that_controls_skills(field: str, outcome: str) -> None:
    policy = Policy(**{field: "skills_run"})  # type: ignore[arg-type]
    assert decided("skills_run", policy=policy, is_control=True).outcome == outcome
    assert decided("skills_load", policy=policy, is_control=True).outcome == "allow"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script of a skill."""
    path = tmp_path / "scripts" / "x.py"
    path.parent.mkdir()
    path.write_text("")
    return path


@pytest.mark.covers("O-36")
@pytest.mark.parametrize("tool", ["Read", "READ", "read_file", "view"])
@pytest.mark.parametrize("key", ["file_path", "path"])
def test_a_script_is_run_and_not_read(script: Path, tool: str, key: str) -> None:
    arguments: dict[str, Any] = {key: str(script)}
    decision = decided(tool, ceiling("s", scripts=(str(script),)), **arguments)
    assert (decision.outcome, decision.code) == ("deny", "script-read")
    assert "skills_run" in for_model(decision.hint, RUNTIME.tools)


@pytest.mark.covers("O-36")
def test_other_tools_and_other_files_are_fine(script: Path) -> None:
    one = ceiling("s", scripts=(str(script),))
    assert decided("Glob", one, path=str(script)).is_allowed
    assert decided("Read", one, file_path=str(script.parent / "y.py")).is_allowed
    assert decided("Read", one).is_allowed
    assert decided("Read", one, file_path=5).is_allowed
    assert decided("Read", one, file_path="a\0b").is_allowed
    assert decided("Read", ceiling("s"), file_path=str(script)).is_allowed


@pytest.mark.covers("O-36")
def test_a_link_to_a_script_is_the_script(script: Path, tmp_path: Path) -> None:
    link = tmp_path / "innocent.txt"
    link.symlink_to(script)
    assert not decided("Read", ceiling("s", scripts=(str(script),)), file_path=str(link)).is_allowed


@pytest.mark.parametrize(
    ("others", "policy", "outcome", "rule"),
    [
        ([], {}, "ask", "policy: script_reads ask"),
        ([ceiling("b", "Write")], {}, "deny", "b: allowed-tools"),
        ([ceiling("b", disallowed="Read")], {}, "deny", "b: disallowed-tools Read"),
        ([], {"allow": "Write"}, "deny", "policy: allow"),
        ([ceiling("b", "Read")], {}, "ask", "policy: script_reads ask"),
    ],
)
def test_what_may_be_agreed_to_is_still_refused_where_another_rule_is_against_it(
    script: Path, others: list[Ceiling], policy: dict[str, Any], outcome: str, rule: str
) -> None:
    first = ceiling("a", scripts=(str(script),))
    decision = decided("Read", first, *others, policy=Policy(script_reads="ask", **policy), file_path=str(script))
    assert (decision.outcome, decision.rule) == (outcome, rule)
