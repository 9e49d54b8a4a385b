"""What an agent is told, for as long as the skills that it is made of stay what they were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier import Guard
from metier.agent import Manifest
from metier.errors import AgentFailed
from metier.testing import AuditProbe, library, skill

Declare = Callable[..., Manifest]


def say(conversation: Any, text: str) -> Any:
    async def main() -> Any:
        return [event async for event in conversation.send(text)][-1].message

    return anyio.run(main)


def change(root: Path) -> None:
    path = root / "mine" / "SKILL.md"
    path.write_text(path.read_text().replace("Version one.", "This is version two."))


@pytest.fixture
def bound(tmp_path: Path, stage: Any, declare: Declare) -> Callable[..., Any]:
    """An agent that a skill on disk is part of."""

    def make(*steps: Any, **options: Any) -> Any:
        skills = library(skill("mine", "Version one.", allowed_tools="Read"), into=tmp_path / "skills")
        return stage(skills, steps, declare(uses_skills=("mine",)), **options)

    return make


def test_a_skill_that_is_blocked_ends_the_run_before_the_next_request(bound: Any) -> None:
    guard = Guard(audit=AuditProbe())

    def block(request: Any) -> Any:
        guard.block("mine")
        return "skills_search", {"query": "x"}

    played = bound(block, "Never.", guard=guard)
    with pytest.raises(AgentFailed, match=r"Skill 'mine', which is part of agent 'clerk', was blocked") as caught:
        played.agent.run_blocking("Go.")
    assert caught.value.context["skill"] == "mine"
    assert len(played.requests) == 1


def test_a_skill_that_is_blocked_is_not_told_in_the_next_turn_of_a_conversation(bound: Any) -> None:
    guard = Guard(audit=AuditProbe())
    played = bound("One.", "Two.", guard=guard)
    conversation = played.agent.conversation()
    say(conversation, "Hello.")
    guard.block("mine")
    with pytest.raises(AgentFailed, match="was blocked"):
        say(conversation, "Hello again.")
    assert len(played.requests) == 1


def test_a_skill_that_changes_ends_the_run_before_the_next_request(bound: Any, tmp_path: Path) -> None:
    def changed(request: Any) -> Any:
        change(tmp_path / "skills")
        return "skills_search", {"query": "x"}

    played = bound(changed, "Never.")
    with pytest.raises(AgentFailed, match=r"'mine', which is part of agent 'clerk', has changed"):
        played.agent.run_blocking("Go.")


def test_what_a_skill_says_by_now_is_told_once_somebody_asks_for_it(bound: Any, tmp_path: Path) -> None:
    played = bound("One.", "Two.", "Three.")
    conversation = played.agent.conversation()
    say(conversation, "Hello.")
    change(tmp_path / "skills")
    with pytest.raises(AgentFailed, match="has changed"):
        say(conversation, "Hello again.")
    assert say(conversation, "/mine") == "Two."
    assert "This is version two." in played.requests[1].instructions
    assert "Version one." not in played.requests[1].instructions


def test_a_conversation_that_goes_on_later_is_told_what_the_skill_says_by_then(bound: Any, tmp_path: Path) -> None:
    played = bound("One.", "Two.")
    conversation = played.agent.conversation()
    say(conversation, "Hello.")
    state = conversation.save()
    conversation.close()
    change(tmp_path / "skills")
    assert say(played.agent.conversation(state), "Hello again.") == "Two."
    assert "This is version two." in played.requests[1].instructions
