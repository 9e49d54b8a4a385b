"""What a policy may say."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from metier import Guard, Policy
from metier.errors import InvalidArgument
from metier.guard import MemoryLog
from metier.run import Limits
from metier.run.job import NEEDS


@pytest.mark.each("field", ["untrusted", "scripts", "unsandboxed", "hooks", "injection", "script_reads"])
@pytest.mark.parametrize("value", ["maybe", "", None, True, "ALLOW", ["allow"]])
def test_an_outcome_is_allow_ask_or_deny(field: str, value: Any) -> None:
    if value is None and field in ("hooks", "injection"):
        return  # which leave it to the policy files
    with pytest.raises(InvalidArgument) as caught:
        Policy(**{field: value})
    assert field in str(caught.value)
    assert "allow, ask, deny" in caught.value.hint


@pytest.mark.covers("SEC-11")
@pytest.mark.each("value", ["maybe", "", "ask", True])
def test_whether_skills_are_used_without_their_checks_is_allow_or_deny(value: Any) -> None:
    with pytest.raises(InvalidArgument, match="unchecked"):
        Policy(unchecked=value)


@pytest.mark.each(
    "values",
    [
        {"blocked": "deploy"},
        {"blocked": [5]},
        {"blocked": None},
        {"allowed_tools": "project"},
        {"allowed_tools": ["project"]},
        {"allowed_tools": {"project": "loose"}},
        {"allowed_tools": {5: "advisory"}},
        {"allow": 5},
        {"allow": [5]},
        {"ask": None},
        {"deny": None},
        {"deny": {"Bash": 1}},
        {"deny": [None]},
        {"network": "open"},
        {"hosts": "example.com"},
        {"hosts": ["https://example.com"]},
        {"hosts": ["example.com/path"]},
        {"hosts": ["*"]},
        {"hosts": [""]},
        {"hosts": ["a b"]},
        {"hosts": [5]},
        {"paths": "/data"},
        {"paths": ["data"]},
        {"paths": ["~/data"]},
        {"paths": ["$HOME"]},
        {"paths": ["/"]},
        {"paths": ["//:rw"]},
        {"paths": ["/data/../etc"]},
        {"paths": ["/da\0ta"]},
        {"paths": [""]},
        {"secrets": ["API_KEY"]},
        {"secrets": {"deploy": "API_KEY"}},
        {"secrets": {"deploy": ["API KEY"]}},
        {"secrets": {"deploy": ["*"]}},
        {"secrets": {5: ["API_KEY"]}},
        {"require": "files"},
        {"require": ["magic"]},
        {"limits": {"seconds": 0}},
        {"limits": {"seconds": True}},
        {"limits": {"seconds": float("nan")}},
        {"limits": {"seconds": float("inf")}},
        {"limits": {"memory_bytes": 1.5}},
        {"limits": {"memory_bytes": "1G"}},
        {"limits": {"cpus": 1}},
        {"limits": 30},
    ],
)
def test_what_cannot_be_meant_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Policy(**values)
    assert caught.value.hint


@pytest.mark.each(
    "values",
    [
        {"allow": None},
        {"allow": ""},
        {"allow": "Read, Bash(git:*)", "ask": ["Write"], "deny": ("WebFetch",)},
        {"blocked": {"a", "b"}},
        {"allowed_tools": {"project": "advisory", ".claude/skills": "enforced"}},
        {"network": "restricted", "hosts": ["api.example.com", "*.example.org", "example.com:8443", "[::1]:80"]},
        {"paths": ("/data", "/project:rw", "/logs:ro")},
        {"secrets": {"deploy": ["API_KEY"], "sha256:abc": ("OTHER",)}},
        {"require": ["files", "network", "hosts", "descendants", "memory", "processes", "disk", "calls"]},
        {"limits": {"seconds": 2.5, "memory_bytes": 2**30, "processes": 5}},
    ],
)
def test_rules_are_text_or_several(values: dict[str, Any]) -> None:
    policy = Policy(**values)
    assert {name: getattr(policy, name) for name in values} == values


@pytest.mark.covers("O-66")
def test_by_default_nothing_is_reached_and_nothing_more_is_given() -> None:
    policy = Guard(audit=MemoryLog()).policy
    assert (policy.network, policy.hosts, policy.paths, policy.secrets) == ("none", (), (), {})


def test_what_can_be_required_is_what_runners_can_say_of_themselves() -> None:
    assert Policy(require=tuple(NEEDS)).require == tuple(NEEDS)
    limits = {field.name: 1 for field in fields(Limits)}
    assert Policy(limits=limits).limits == limits


def test_by_default_nothing_runs_that_somebody_did_not_allow() -> None:
    policy = Guard(Policy(), audit=MemoryLog()).policy
    assert (policy.unsandboxed, policy.hooks, policy.injection, policy.untrusted) == ("deny", "deny", "deny", "ask")
    assert policy.unchecked == "deny"
