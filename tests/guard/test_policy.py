"""What a policy may say."""

from __future__ import annotations

from typing import Any

import pytest

from metier import Policy
from metier.errors import InvalidArgument


@pytest.mark.parametrize("field", ["untrusted", "scripts", "unsandboxed", "hooks", "injection", "script_reads"])
@pytest.mark.parametrize("value", ["maybe", "", None, True, "ALLOW", ["allow"]])
def test_an_outcome_is_allow_ask_or_deny(field: str, value: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Policy(**{field: value})
    assert field in str(caught.value)
    assert "allow, ask, deny" in caught.value.hint


@pytest.mark.parametrize(
    "values",
    [
        {"blocked": "deploy"},
        {"blocked": [5]},
        {"blocked": None},
        {"advisory": "project"},
        {"advisory": ["nowhere"]},
        {"advisory": [5]},
        {"allow": 5},
        {"allow": [5]},
        {"ask": None},
        {"deny": None},
        {"deny": {"Bash": 1}},
        {"deny": [None]},
    ],
)
def test_what_cannot_be_meant_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Policy(**values)
    assert caught.value.hint


@pytest.mark.parametrize(
    "values",
    [
        {"allow": None},
        {"allow": ""},
        {"allow": "Read, Bash(git:*)", "ask": ["Write"], "deny": ("WebFetch",)},
        {"blocked": {"a", "b"}},
        {"advisory": ["project", "plugin"]},
    ],
)
def test_rules_are_text_or_several(values: dict[str, Any]) -> None:
    policy = Policy(**values)
    assert {name: getattr(policy, name) for name in values} == values


def test_by_default_nothing_runs_that_somebody_did_not_allow() -> None:
    policy = Policy()
    assert (policy.unsandboxed, policy.hooks, policy.injection, policy.untrusted) == ("deny", "deny", "deny", "ask")
