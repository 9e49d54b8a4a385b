"""The tools by which a model proposes a change to a skill, or a new one; somebody else decides about it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from metier.dialect.dialects import SkillTool, schema, text, texts
from metier.hub.proposals import propose_new, propose_update
from metier.session import escape_tags_in
from metier.store import Person
from metier.tools import DEFAULT_TIMEOUT, ToolResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from metier import Session
    from metier.skill.package import Files
    from metier.store import Proposal, TenantScope

_JUSTIFICATION = text("Why it is needed: what went wrong or was missing, and what becomes better.")
_EVIDENCE = texts("What shows that it is needed: quotes of errors, of what the user said, of results.")

_UPDATE = schema(
    ("skill", "diff", "justification"),
    skill=text("The name of the skill, as listed."),
    diff=text(
        "A unified diff with paths below the skill's folder: --- a/SKILL.md, +++ b/SKILL.md, and hunks with exact "
        "lines of context. A new file has --- /dev/null."
    ),
    justification=_JUSTIFICATION,
    evidence=_EVIDENCE,
)
_NEW = schema(
    ("name", "files", "justification"),
    name=text("What it is called: a-z, 0-9 and single hyphens, at most 64."),
    files={
        "type": "object",
        "description": "The text of every file by its path; SKILL.md, with its frontmatter, must be among them.",
        "additionalProperties": {"type": "string"},
    },
    justification=_JUSTIFICATION,
    evidence=_EVIDENCE,
)


def proposal_tools(session: Session) -> list[SkillTool]:
    """The tools `propose_skill_update` and `propose_skill` for a session, whose guard has the store of proposals.

    >>> from metier import Library
    >>> [tool.name for tool in proposal_tools(Library.from_files().session())]
    ['propose_skill_update', 'propose_skill']
    """
    update = (
        "Proposes a change to a skill. Nothing changes until a person has looked at it and agreed: go on without it. "
        "Use it when a skill's instructions turned out wrong or incomplete."
    )
    new = (
        "Proposes a new skill. Nobody can use it until a person has looked at it and agreed. Use it when something "
        "should be done the same way again and no skill says how."
    )
    return [
        SkillTool("propose_skill_update", update, _UPDATE, partial(_update, session), timeout=DEFAULT_TIMEOUT),
        SkillTool("propose_skill", new, _NEW, partial(_new, session), timeout=DEFAULT_TIMEOUT),
    ]


async def _update(session: Session, arguments: Mapping[str, Any]) -> ToolResult:
    def propose() -> Proposal:
        return propose_update(
            session.library,
            _scope(session),
            session.parts.known.find(arguments["skill"].strip(), by="model"),
            arguments["diff"],
            arguments["justification"],
            arguments.get("evidence", ()),
            **_who(session),
        )

    return _as_result(await session.guard.in_thread(propose))


async def _new(session: Session, arguments: Mapping[str, Any]) -> ToolResult:
    name, files, justification = arguments["name"].strip(), arguments["files"], arguments["justification"]
    evidence = arguments.get("evidence", ())
    return await session.guard.in_thread(propose_files, session, name, files, justification, evidence)


def propose_files(
    session: Session, name: str, files: Files | Mapping[str, str], justification: str, evidence: Sequence[str]
) -> ToolResult:
    """Propose a new skill in the name of a session's agent, and tell a model what came of it."""
    return _as_result(propose_new(_scope(session), name, files, justification, evidence, **_who(session)))


def _scope(session: Session) -> TenantScope:
    return session.guard.governance.scope(session.context.actor)


def _who(session: Session) -> dict[str, Any]:
    author = Person(name=session.context.actor.agent or "agent", kind="agent")
    return {"author": author, "actor": session.context.actor, "guard": session.guard}


def _as_result(proposal: Proposal) -> ToolResult:
    found = {
        "proposal": proposal.id,
        "skill": proposal.skill.partition("@")[0],
        "status": proposal.status,
        "new_capabilities": list(proposal.capabilities_new),
        "next": "It waits for a person to decide; nothing has changed yet. Tell the user its id."
        if proposal.status == "open"
        else "It was applied at once: policy lets you make skills by yourself.",
    }
    return ToolResult(success=True, result=escape_tags_in(found), data={"proposal": proposal.id})
