"""Skills that run in an agent of their own (`context: fork`): only their input goes in, only their output comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from metier import Session
from metier.dialect.skills import BEGIN
from metier.errors import ActivationFailed, AgentInvalid, AgentNotFound, MetierError, SkillNotFound
from metier.guard import Action
from metier.hints import ASK_TO_TRUST, for_people
from metier.session import Event
from metier.session.active_skills import subject_of
from metier.skill import shown

if TYPE_CHECKING:
    from typing import Self

    from metier import Entry
    from metier.agent.agent import Agent
    from metier.agent.manifest import Manifest
    from metier.agent.turn import Turn
    from metier.dialect import Spawn
    from metier.session import ActiveSkill
    from metier.session.context import By


class AgentSession(Session):
    """A session of an agent; a skill that names another agent is forked into a session of that one."""

    agent: Agent | None = None
    """The agent that works in the session."""
    was_told_of_trust = False
    """Whether its listeners were told that instructions of the project are not read."""

    def fork(self, name: str, *, args: str = "", by: By = "host") -> Self:
        """A session for a skill with an agent of its own: of the agent that it names, else of this one."""
        self.context.require_open()
        agent, entry = self.agent, self.parts.known.find(name, by=by)
        wanted = entry.skill.agent
        if agent is None or not wanted:
            child = super().fork(name, args=args, by=by)
            child.agent = agent
            return child
        try:
            child = cast("Self", _allowed(agent, entry, wanted).session(parent=self, forked=entry))
        except MetierError as error:
            self._tell_of_failure(entry, by, error)
            raise
        child.loaded.forked_for = entry.name
        try:
            child.load([child.parts.known.handle(entry)], "add", args=args, by=by)
            child.loaded.fix([child.loaded.one(entry.name)])
        except SkillNotFound as error:
            child.close()
            raise SkillNotFound(
                f"{_who(entry, wanted)}, for which it is not there.",
                hint="See `scope` of the skill: it may leave that agent out.",
                **error.context,
            ) from None
        except BaseException:
            child.close()
            raise
        return child

    def _tell_of_failure(self, entry: Entry, by: By, error: MetierError) -> None:
        """A record and an event: what came to nothing was asked for all the same."""
        action = Action(point="load", skill=subject_of(entry), by=by)
        decision = self.guard.decide(action, self.context.actor)
        self.guard.audit(action, self.context.actor, decision).close(success=False, code=error.code)
        self.context.emit(Event(kind="refused", skill=entry.name, code=error.code, message=error.message))


def subagent_spawner(turn: Turn) -> Spawn:
    """The function that runs skills with `context: fork` in an agent of their own, during a turn.

    The agent is the one that the skill names (`agent:`), as it would work by itself, or else one with the model and the
    tools of the turn's agent and no instructions but the skill's. Its session is closed by whoever made it, whatever
    happens.
    """

    async def spawn(skill: ActiveSkill, task: str, session: Session) -> str:
        from metier.agent.turn import Turn

        child = cast("AgentSession", session)
        named = child.agent if skill.skill.agent else None
        options: dict[str, Any] = {"model": turn.model, "is_itself": False} if named is None else {"model": named.model}
        answer = await Turn(named or turn.agent, child, under=turn, **options).answer(task or BEGIN)
        return answer.text

    return spawn


def _allowed(agent: Agent, entry: Entry, wanted: str) -> Agent:
    """The agent that a skill names, if it may: a skill must not get hold of tools that nobody offers it."""
    who = _who(entry, wanted)
    about = {"skill": entry.name, "id": wanted}
    if not entry.trusted:
        raise ActivationFailed(
            f"{who}, and comes from a place that nobody has trusted.",
            hint=for_people(
                "Read it, then `metier trust` the project; or remove `agent` from the skill.", model=ASK_TO_TRUST
            ),
            **about,
        )
    try:
        manifest: Manifest = agent.agents.get(wanted)
        if manifest.id == agent.manifest.id:
            return agent
        if manifest.integration_mode == "tool":
            return agent.other(manifest)
    except (AgentNotFound, AgentInvalid) as error:
        raise type(error)(f"{who}: {error.message}", hint=error.hint, **about) from None
    raise ActivationFailed(
        f"{who}, which is not offered to others.",
        hint="Write `integration_mode: tool` into its agent.yaml, or remove `agent` from the skill.",
        **about,
    )


def _who(entry: Entry, wanted: str) -> str:
    return f"Skill {entry.name!r} runs in agent {shown(wanted)!r}"
