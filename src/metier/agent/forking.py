"""Skills that run in an agent of their own (`context: fork`): only their input goes in, only their output comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from metier.agent.streaming import tell_of_child
from metier.dialect.skills import BEGIN
from metier.errors import AgentInvalid, AgentNotFound
from metier.session import Event

if TYPE_CHECKING:
    from metier import Session
    from metier.agent.agent import Agent
    from metier.agent.turn import Turn
    from metier.dialect import Spawn
    from metier.session import ActiveSkill
    from metier.session import session as room


def forks(turn: Turn) -> Spawn:
    """What runs the skills that ask for an agent of their own, during a turn.

    The agent is the one that the skill names (`agent:`), with its instructions, model and tools, or else one with the
    model and the tools of the turn's agent and no instructions but the skill's. Its session is closed by whoever made
    it, whatever happens.
    """

    async def spawn(skill: ActiveSkill, task: str, session: room.Session) -> str:
        from metier.agent.turn import Turn

        child = cast("Session", session)
        named = _named(turn.agent, skill)
        message = f"Runs {skill.name} in an agent of its own."
        turn.session.emit(Event(kind="loaded", skill=skill.name, message=message, session=child.id))
        tell_of_child(turn.session, child)
        agent = turn.agent if named is None else named
        instructions = "" if named is None else await named.bound(child)
        run = Turn(agent, child, instructions=instructions, model=turn.model if named is None else named.model)
        answer = await run.answer(task or BEGIN)
        turn.spent += answer.usage
        return answer.text

    return spawn


def _named(agent: Agent, skill: ActiveSkill) -> Agent | None:
    """The agent that a skill names."""
    name = skill.skill.agent
    if not name:
        return None
    try:
        return agent.other(agent.agents.get(name))
    except (AgentNotFound, AgentInvalid) as error:
        raise type(error)(
            f"Skill {skill.name!r} runs in agent {name!r}: {error.message}", hint=error.hint, skill=skill.name, id=name
        ) from None
