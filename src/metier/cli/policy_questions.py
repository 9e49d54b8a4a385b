"""Questions to what policy allows, as people and files of cases put them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from metier.dialect import CONTROL_TOOLS
from metier.errors import InvalidArgument, SkillNotFound
from metier.guard import Action, Actor, Guard, MemoryLog, Subject
from metier.guard.explanation import explain, run_of_call
from metier.guard.policy.rules import ALIASES, POINTS
from metier.guard.tool_rules.ceiling import declared_ceiling
from metier.session.active import subject_of
from metier.skill import shown
from metier.skill.lookalikes import is_taken_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier import Library
    from metier.guard import Ceiling
    from metier.guard.decision import Point
    from metier.guard.explanation import Explanation
    from metier.library import Entry

_INSIDE = {point: alias for alias, point in ALIASES.items()}
_BRINGING = ("install", "update", "publish", "propose", "deploy")
"""Points at which a skill need not be here yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What somebody wants to know the answer to."""

    skill: str = ""
    point: str = ""
    """Empty: what follows from the rest of it."""
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
    """Where a skill would be that is not here."""


def ask(question: Question, library_of: Callable[[], Library]) -> tuple[str, Explanation]:
    """What it is about, in words, and the answer; asks nobody and records nothing."""
    point = _point_of(question)
    subject: Subject | None = None
    entry: Entry | None = None
    rivals: frozenset[str] = frozenset()
    if question.skill:
        library = library_of()
        entry = _entry(library, question, point)
        name, _, source = question.skill.partition("@")
        if entry is None:
            subject = Subject(name=name, source=source, layer=question.layer)
        else:
            subject = subject_of(entry, library.digest(entry))
        same = [one for one in library.entries(all=True) if is_taken_for(subject.name, one.name) and one is not entry]
        rivals = frozenset(one.layer for one in same)
    elif point in ("activate", "read-resource", "script-run", "hook-run", "inject"):
        raise InvalidArgument("No skill is named.", hint="Write `metier policy explain NAME`.")
    guard = Guard(audit=MemoryLog())
    tool, arguments = _call(question) if point == "tool-call" else ("", {})
    ceilings: tuple[Ceiling, ...] = ()
    if entry is not None and subject is not None and point == "tool-call":
        enforcement = guard.enforcement_of(entry.place, entry.folder)
        ceilings = (declared_ceiling(entry.skill, entry, enforcement, digest=subject.digest),)
    action = Action(
        point=cast("Point", _INSIDE.get(point, point)),
        skill=subject,
        tool=tool,
        arguments=arguments,
        ceilings=ceilings,
        by=cast("Literal['model', 'user', 'host']", question.by),
        rivals=rivals,
        source=question.source,
        workspace=os.path.abspath("."),
        command=question.script if point in ("script-run", "hook-run", "inject") else "",
        path=question.script,
        is_control=tool in CONTROL_TOOLS,
    )
    actor = Actor(agent=question.agent, tenant=question.tenant, environment=question.environment)
    found = explain(guard, action, actor)
    if (run := run_of_call(action)) is not None:
        found = explain(guard, run, actor).before(found)
    if point == "script-run":
        # Nothing of a skill is run before it was loaded.
        found = explain(guard, replace(action, point="load", command="", path=""), actor).before(found)
    return _words(point, action, subject), found


def _point_of(question: Question) -> str:
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


def _entry(library: Library, question: Question, point: str) -> Entry | None:
    if question.layer:
        return None
    try:
        return library.get(question.skill)
    except SkillNotFound:
        if point in _BRINGING:
            return None
        raise


def _call(question: Question) -> tuple[str, dict[str, Any]]:
    if question.command is not None:
        if question.tool or question.arguments is not None:
            raise InvalidArgument("--command stands for --tool and --args.", hint="Give it alone.")
        return "Bash", {"command": question.command}
    if not question.tool:
        raise InvalidArgument("No tool is named.", hint='Add --tool Bash, or --command "git status".')
    return question.tool, question.arguments or {}


def _words(point: str, action: Action, subject: Subject | None) -> str:
    parts = [point]
    if subject is not None:
        where = f" ({subject.layer})" if subject.layer else ""
        parts.append(f"{subject.ref}{where}")
    if action.tool:
        command = action.arguments.get("command") if len(action.arguments) == 1 else None
        parts.append(f"{action.tool} {command if isinstance(command, str) else json.dumps(dict(action.arguments))}")
    parts += [one for one in (action.path, f"from {action.source}" if action.source else "") if one]
    return " · ".join(parts)
