"""The tools by which a model proposes a change to a skill, or a new one; somebody else decides about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier.dialect.dialects import SkillTool, schema, text, texts
from metier.hub.proposals import propose_new, propose_update
from metier.session import escape_tags_in
from metier.store import Person
from metier.tools import DEFAULT_TIMEOUT, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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


def proposal_tools(session: Session, scope_of: Callable[[], TenantScope] | None = None) -> list[SkillTool]:
    """The tools `propose_skill_update` and `propose_skill` for a session; what they propose goes to a store.

    Without `scope_of` that is the store of the session's guard.

    >>> from metier import Library
    >>> [tool.name for tool in proposal_tools(Library.from_files().session())]
    ['propose_skill_update', 'propose_skill']
    """
    calls = _Calls(session, scope_of or (lambda: session.guard.governance.scope(session.context.actor)))
    update = (
        "Proposes a change to a skill. Nothing changes until a person has looked at it and agreed: go on without it. "
        "Use it when a skill's instructions turned out wrong or incomplete."
    )
    new = (
        "Proposes a new skill. Nobody can use it until a person has looked at it and agreed. Use it when something "
        "should be done the same way again and no skill says how."
    )
    return [
        SkillTool("propose_skill_update", update, _UPDATE, calls.update, timeout=DEFAULT_TIMEOUT),
        SkillTool("propose_skill", new, _NEW, calls.new, timeout=DEFAULT_TIMEOUT),
    ]


class _Calls:
    def __init__(self, session: Session, scope_of: Callable[[], TenantScope]) -> None:
        self._session = session
        self._scope_of = scope_of

    async def update(self, arguments: Mapping[str, Any]) -> ToolResult:
        session = self._session

        def propose() -> Proposal:
            return propose_update(
                session.library,
                self._scope_of(),
                session.parts.known.find(arguments["skill"].strip(), by="model"),
                arguments["diff"],
                arguments["justification"],
                arguments.get("evidence", ()),
                **_who(session),
            )

        return _as_result(await session.guard.in_thread(propose))

    async def new(self, arguments: Mapping[str, Any]) -> ToolResult:
        return await self._session.guard.in_thread(
            propose_files,
            self._session,
            arguments["name"].strip(),
            arguments["files"],
            arguments["justification"],
            arguments.get("evidence", ()),
            self._scope_of,
        )


def propose_files(
    session: Session,
    name: str,
    files: Files | Mapping[str, str],
    justification: str,
    evidence: Sequence[str],
    scope_of: Callable[[], TenantScope] | None = None,
) -> ToolResult:
    """Propose a new skill in the name of a session's agent, and tell a model what came of it."""
    scope = scope_of() if scope_of is not None else session.guard.governance.scope(session.context.actor)
    return _as_result(propose_new(scope, name, files, justification, evidence, **_who(session)))


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
