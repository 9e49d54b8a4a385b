"""What an agent is told, with the skills that are part of it, for as long as these stay what they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.errors import AgentFailed
from metier.guard import Subject

if TYPE_CHECKING:
    from metier import Session
    from metier.agent.agent import Agent


class OwnInstructions:
    """The instructions of an agent during one turn.

    They are made of skills that somebody may block or change meanwhile. What was said cannot be taken back, but nothing
    is asked with it any more.
    """

    def __init__(self, agent: Agent, session: Session) -> None:
        self._agent = agent
        self._session = session
        self._text = ""
        self._made_of: dict[str, str] | None = None

    async def text(self) -> str:
        """The text for the next request; raises `AgentFailed` where a skill that it is made of is not what it was."""
        made_of = self._made_of
        if made_of is None:
            made_of = self._bound()
            self._text = await self._agent.instructions(self._session)
        now = self._bound()
        for name, digest in made_of.items():
            if now[name] != digest:
                raise self._failed(name, "has changed")
        self._made_of = made_of
        return self._text

    def _bound(self) -> dict[str, str]:
        """The skills that are part of the agent, with the digests of what is loaded."""
        session = self._session
        active = {one.name: one for one in session.active}
        for name in sorted(session.bound):
            if name not in active:
                is_barred = session.guard.bars(Subject(name=name), session.actor)
                raise self._failed(name, "was blocked" if is_barred else "is gone or blocked")
            if session.is_stale(active[name]):
                raise self._failed(name, "has changed")
        return {name: active[name].digest for name in session.bound}

    def _failed(self, name: str, what: str) -> AgentFailed:
        agent = self._agent.manifest.id
        hint = "Begin anew, and the agent is told what the skill says now."
        if what != "has changed":
            hint = "Ask whoever manages the skills; without it, take it from `uses_skills` in agent.yaml."
        return AgentFailed(
            f"Skill {name!r}, which is part of agent {agent!r}, {what}.", hint=hint, agent=agent, skill=name
        )
