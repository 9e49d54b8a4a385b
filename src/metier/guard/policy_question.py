"""Questions to policy about an action that does not happen, and their answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, cast

from metier._lazy import dataclass, replace
from metier.errors import InvalidArgument
from metier.guard.decision import Action, Actor, declared_ceiling
from metier.guard.explanation import explain, run_of_call
from metier.guard.policy.rules import ALIASES, POINTS
from metier.hints import for_people
from metier.skill import shown

if TYPE_CHECKING:
    from metier.guard.decision import Ceiling, Point, Subject
    from metier.guard.explanation import Explanation
    from metier.guard.guard import Guard

_INSIDE = {point: alias for alias, point in ALIASES.items()}
_OF_SKILLS = ("activate", "read-resource", "script-run", "hook-run", "inject")
"""Points at which a skill has to be named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyQuestion:
    """A question to policy: an action of a caller, with a skill or without."""

    skill: str = ""
    point: str = ""
    """Empty: the point that follows from the rest."""
    tool: str = ""
    arguments: dict[str, Any] | None = None
    command: str | None = None
    script: str = ""
    source: str = ""
    by: str = "model"
    agent: str | None = None
    tenant: str | None = None
    environment: str | None = None
    layer: str = ""
    """The layer of a skill that is not here."""


def answer(
    guard: Guard,
    question: PolicyQuestion,
    subject: Subject | None,
    *,
    rivals: frozenset[str] = frozenset(),
    workspace: str = "",
    is_control: bool = False,
) -> tuple[str, Explanation]:
    """Describe a question and answer it; asks nobody and records nothing. `subject` is the skill that it names."""
    point = point_of(question)
    if subject is None and point in _OF_SKILLS:
        raise InvalidArgument("No skill is named.", hint=for_people("Write `metier policy explain NAME`."))
    tool, arguments = _call_of(question) if point == "tool-call" else ("", {})
    action = Action(
        point=cast("Point", _INSIDE.get(point, point)),
        skill=subject,
        tool=tool,
        arguments=arguments,
        ceilings=_ceilings(guard, subject) if point == "tool-call" else (),
        by=cast("Literal['model', 'user', 'host']", question.by),
        rivals=rivals,
        source=question.source,
        workspace=workspace,
        command=question.script if point in ("script-run", "hook-run", "inject") else "",
        path=question.script,
        is_control=is_control,
    )
    actor = Actor(agent=question.agent, tenant=question.tenant, environment=question.environment)
    found = explain(guard, action, actor)
    if (run := run_of_call(action)) is not None:
        found = explain(guard, run, actor).before(found)
    if point == "script-run":
        # Nothing of a skill is run before it was loaded.
        found = explain(guard, replace(action, point="load", command="", path=""), actor).before(found)
    return _describe(point, action, subject), found


def _call_of(question: PolicyQuestion) -> tuple[str, dict[str, Any]]:
    if question.command is not None:
        return "Bash", {"command": question.command}
    return question.tool, question.arguments or {}


def _ceilings(guard: Guard, subject: Subject | None) -> tuple[Ceiling, ...]:
    if subject is None or subject.entry is None:
        return ()
    entry = subject.entry
    enforcement = guard.enforcement_of(entry.place, entry.folder)
    return (declared_ceiling(entry.skill, entry, enforcement, digest=subject.digest),)


def point_of(question: PolicyQuestion) -> str:
    """The point of decision that a question is about; raises `InvalidArgument` where there is no such point."""
    if question.point:
        point = ALIASES.get(question.point, question.point)
        if point not in POINTS:
            raise InvalidArgument(
                f"There is no point of decision {shown(question.point)!r}.", hint=f"Points are {', '.join(POINTS)}."
            )
        return point
    if question.tool or question.command is not None:
        return "tool-call"
    if question.script:
        return "script-run"
    return "install" if question.source else "activate"


def _describe(point: str, action: Action, subject: Subject | None) -> str:
    parts = [point]
    if subject is not None:
        where = f" ({subject.layer})" if subject.layer else ""
        parts.append(f"{subject.ref}{where}")
    if action.tool:
        command = action.arguments.get("command") if len(action.arguments) == 1 else None
        parts.append(f"{action.tool} {command if isinstance(command, str) else json.dumps(dict(action.arguments))}")
    parts += [one for one in (action.path, f"from {action.source}" if action.source else "") if one]
    return " · ".join(parts)
