"""A developer comes from another client: her skills, her project's instructions, and her own agent keep working."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_ai import Agent

from metier import Policy
from metier.dialect.pydantic_ai import Skills
from metier.testing import AuditProbe, ScriptedModel

Metier = Callable[..., tuple[int, str, str]]

REVIEW = """\
---
name: review
description: Reviews a change before it is merged.
allowed-tools: Read, Bash(git diff:*)
disallowed-tools: delete_branch
---

Look at the difference, ask for the tickets it closes, and say what is missing.
"""


def tickets(change: str) -> str:
    """The tickets that a change closes."""
    return f"{change} closes 4711."


def delete_branch(name: str) -> str:
    """Delete a branch."""
    raise AssertionError(name)


@pytest.fixture
def project(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with instructions for agents; the developer's skills lie where her other clients have them."""
    folder = tmp_path / "shop"
    (folder / ".git").mkdir(parents=True)
    (folder / "AGENTS.md").write_text("Tests are run with `make check`.\n")
    for client in (".claude", ".codex"):
        skill = own_home / client / "skills" / ("review" if client == ".claude" else "notes") / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text(REVIEW if client == ".claude" else REVIEW.replace("name: review", "name: notes"))
    monkeypatch.chdir(folder)
    return folder


def play(steps: list[Any], **options: Any) -> tuple[str, ScriptedModel, AuditProbe]:
    """Her own agent, with the skills of this machine and two functions of hers."""
    model, audit = ScriptedModel(steps), AuditProbe()
    agent = Agent(model, tools=[tickets, delete_branch], capabilities=[Skills(audit=audit, **options)])
    return anyio.run(agent.run, "Review change 12.").output, model, audit


@pytest.mark.covers("USE-1", "USE-7", "ACC-14")
def test_her_skills_work_in_her_agent_and_in_ours_and_her_team_decides_how_strictly(
    project: Path, own_home: Path, metier: Metier
) -> None:
    load = ("skills_load", {"skills": ["review"]})
    steps = [load, ("tickets", {"change": "12"}), ("delete_branch", {"name": "main"}), "Reviewed."]

    # Her function works beside the skill; what the skill forbids stays forbidden; she hears of all of it.
    events: list[Any] = []
    answer, model, audit = play(steps, on_event=events.append)
    assert answer == "Reviewed."
    assert "closes 4711" in model.requests[2].told[-1]
    assert "Error [tool-not-allowed]" in model.requests[3].told[-1]
    assert [event.kind for event in events if event.kind in ("loaded", "refused")] == ["loaded", "refused"]
    outside = audit.one(event="call", tool="tickets")
    assert (outside.rule, outside.decision) == ("review: allowed-tools (advisory)", "allow")

    # She sees why, for each of her clients.
    for name, client in (("review", "Claude Code"), ("notes", "Codex")):
        shown = json.loads(metier("show", name, "--json")[1])["allowed_tools"]
        assert shown["enforcement"] == "advisory" and client in shown["because"]
    assert "allowed-tools are advisory in ~/.claude/skills" in " ".join(metier("doctor")[1].split())

    # She wants to be asked about tickets, in a sentence that she understands.
    asked: list[str] = []

    def approve(action: Any, decision: Any) -> bool:
        asked.append(action.describe(decision))
        return False

    _, model, _ = play([load, ("tickets", {"change": "12"}), "Done."], policy=Policy(ask="tickets"), approve=approve)
    assert "Error [approval-denied]" in model.requests[2].told[-1]
    [sentence] = asked
    assert sentence.startswith('The model wants to call tickets with {"change": "12"} while \'review\' is active.')

    # Her team wants such lists enforced. A project alone cannot take that back.
    (own_home / ".metier").mkdir(exist_ok=True)
    (own_home / ".metier/policy.yaml").write_text("version: 1\ntools: {allowed-tools: {personal: enforced}}\n")
    (project / ".metier").mkdir(exist_ok=True)
    (project / ".metier/policy.yaml").write_text("version: 1\ntools: {allowed-tools: {personal: advisory}}\n")
    _, model, _ = play(steps)
    refusal = model.requests[2].told[-1]
    assert "Error [tool-not-allowed]" in refusal and "tools.allowed-tools" in refusal
    assert "policy.yaml:2" in metier("explain", "review", "--tool", "tickets", "--json")[1]

    # Our own agent follows the instructions of her project once she trusts it.
    ask = ("ask", "What is to be done?", "--model", "test")
    code, _, err = metier(*ask)
    assert code == 0 and "AGENTS.md" in err
    assert "AGENTS.md" in metier("trust")[1]
    code, _, err = metier(*ask)
    assert code == 0 and "AGENTS.md" not in err
    reads = [json.loads(line) for line in metier("audit", "export")[1].splitlines()]
    assert any(str(one).count("AGENTS.md") for one in reads)
