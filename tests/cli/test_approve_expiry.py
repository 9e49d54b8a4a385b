"""`metier approve list`, where requests wait that nobody has to answer any more."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier.guard import Actor, Subject
from metier.guard.approvals.requests import request_approval
from metier.store import Store

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def policy(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own_home / "policy.yaml").write_text("skill-policy: {approval: {expires: 30d}}\n")
    monkeypatch.setenv("METIER_POLICY", str(own_home / "policy.yaml"))


def ask(name: str, days: int) -> None:
    """A request for a skill from so many days ago."""
    with Store.open() as store:
        request_approval(
            store.of(),
            Subject(name=name, source="acme", layer="plugin", digest=f"sha256:{name * 64}"),
            capabilities=["scripts"],
            new=[],
            scripts={},
            actor=Actor(user="eve"),
            clock=lambda: time.time() - days * 86_400,
        )


def listed(metier: Call, *options: str) -> dict[str, str]:
    code, out, _ = metier("approve", "list", *options, "--json")
    assert code == 0
    requests: list[dict[str, Any]] = json.loads(out)["requests"]
    return {one["skill"]: one["status"] for one in requests}


def test_requests_that_waited_too_long_are_shown_as_expired(metier: Call, policy: None) -> None:
    ask("a", 40)
    ask("b", 10)
    assert listed(metier) == {"b@acme": "pending"}
    assert listed(metier, "--all") == {"a@acme": "expired", "b@acme": "pending"}
    out = metier("approve", "list", "--all")[1]
    assert "expired" in next(line for line in out.splitlines() if "a@acme" in line)
