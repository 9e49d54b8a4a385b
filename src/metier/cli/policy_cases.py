"""Questions to policy: those of `metier policy explain`, and the cases of `metier policy test`."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, cast

from metier._lazy import dataclass, replace
from metier.cli.exit_codes import FINE, PROBLEMS
from metier.cli.explain import tool_call
from metier.cli.output import Style, plural, print_json, table
from metier.cli.parser import library_of
from metier.dialect import CONTROL_TOOLS
from metier.errors import InvalidArgument, MetierError, PolicyInvalid, SkillNotFound
from metier.guard import Action, Actor, Guard, MemoryLog, Subject
from metier.guard.decision import declared_ceiling
from metier.guard.explanation import explain, run_of_call
from metier.guard.policy.reader import read_regular_file
from metier.guard.policy.rules import ALIASES, EFFECTS, POINTS
from metier.guard.policy.yaml_tree import read_tree
from metier.session.active_skills import subject_of
from metier.skill.names import is_taken_for
from metier.skill.untrusted_text import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier import Library
    from metier.guard.decision import Ceiling, Point
    from metier.guard.explanation import Explanation
    from metier.guard.policy.yaml_tree import Node
    from metier.library import Entry


_INSIDE = {point: alias for alias, point in ALIASES.items()}
_BRINGING = ("install", "update", "publish", "propose", "deploy")
"""Points at which a skill need not be here yet."""


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


def ask(question: PolicyQuestion, library_of: Callable[[], Library]) -> tuple[str, Explanation]:
    """Describe a question and answer it; asks nobody and records nothing."""
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
    tool, arguments = (
        tool_call(question.tool, question.arguments, question.command) if point == "tool-call" else ("", {})
    )
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
    return _describe(point, action, subject), found


def _point_of(question: PolicyQuestion) -> str:
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


def _entry(library: Library, question: PolicyQuestion, point: str) -> Entry | None:
    if question.layer:
        return None
    try:
        return library.get(question.skill)
    except SkillNotFound:
        if point in _BRINGING:
            return None
        raise


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


_TEXTS = (*("skill", "point", "tool", "command", "script", "source", "by", "agent", "tenant", "environment", "layer"),)
_FIELDS = ("name", *_TEXTS, "args", "expect", "rule")
_EXAMPLE = "- {skill: pdf, tool: WebFetch, expect: deny}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCase:
    """A question, and the answer that it must have."""

    name: str
    line: int
    question: PolicyQuestion
    expect: str
    rule: str = ""
    """The rule that must have decided: a part of its name is enough."""


def run_cases(options: Namespace) -> int:
    cases = read_cases(os.path.abspath(options.file))
    library = cache(lambda: library_of(options))
    usual = {name: getattr(options, name) for name in ("agent", "tenant", "environment")}
    results = [_try_case(case, usual, library) for case in cases]
    failed = sum(not result["passed"] for result in results)
    if options.json:
        print_json({"cases": results, "failed": failed})
    else:
        _print_results(results, failed)
    return PROBLEMS if failed else FINE


def _try_case(case: PolicyCase, usual: dict[str, str | None], library: Callable[[], Library]) -> dict[str, Any]:
    given: dict[str, Any] = {
        name: value for name, value in usual.items() if value and getattr(case.question, name) is None
    }
    try:
        _, explanation = ask(replace(case.question, **given), library)
        outcome: str = explanation.would or explanation.outcome
        rule, reason = explanation.rule, explanation.reason
        deciding = [one.rule for one in explanation.considered if one.outcome == outcome]
    except MetierError as error:
        outcome, rule, reason, deciding = "error", error.code, error.message, []
    # Where several rules are against it, the one that is looked for need not be the first.
    passed = outcome == case.expect and any(case.rule in one for one in (rule, *deciding))
    return {
        "name": case.name,
        "line": case.line,
        "expected": case.expect,
        "decision": outcome,
        "rule": rule,
        "reason": reason,
        "passed": passed,
    }


def _print_results(results: list[dict[str, Any]], failed: int) -> None:
    style = Style(sys.stdout)
    rows = [
        ["ok" if one["passed"] else "FAILED", one["name"], one["expected"], one["decision"], one["rule"]]
        for one in results
    ]
    print(table(style, ("", "CASE", "EXPECTED", "DECISION", "RULE"), rows))
    for one in results:
        if not one["passed"]:
            print(f"{style.bad('FAILED')} {Style.text(one['name'])}: {Style.text(one['reason'], 1_000)}")
    print(f"{plural(len(results), 'case')}, {f'{failed} failed' if failed else 'all as expected'}")


def read_cases(path: str) -> list[PolicyCase]:
    """Read the cases of a file; raises `PolicyInvalid` with the line of an error."""
    text = ""
    try:
        data = read_regular_file(path)
        text = data.decode("utf-8") if isinstance(data, bytes) else ""
    except (OSError, ValueError) as error:
        data = (error.strerror if isinstance(error, OSError) else None) or "it is no text in UTF-8"
    if isinstance(data, str):
        raise _case_error(path, 1, f"it cannot be read: {data}", "Name a plain file with cases.")
    tree = read_tree(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))
    if tree.flaws:
        raise _case_error(
            path, tree.flaws[0].line, f"the YAML cannot be read: {shown(tree.flaws[0].message)}", _EXAMPLE
        )
    root = tree.roots[0] if tree.roots else None
    if root is not None and root.kind == "map":
        root = next((value for key, value in root.pairs if key.text == "cases"), None)
    if root is None or root.kind != "list" or not root.items:
        raise _case_error(path, 1, "there are no cases", f"Write a list: {_EXAMPLE}")
    return [_read_case(path, number, item) for number, item in enumerate(root.items, 1)]


def _read_case(path: str, number: int, node: Node) -> PolicyCase:
    if node.kind != "map":
        raise _case_error(path, node.line, f"case {number} is {node.noun}", f"Write {_EXAMPLE}")
    said: dict[str, Any] = {}
    for key, value in node.pairs:
        if key.text not in _FIELDS or key.text in said:
            what = "is given twice" if key.text in said else "is no part of a case"
            raise _case_error(path, key.line, f"`{shown(key.text)}` {what}", f"A case has {', '.join(_FIELDS)}.")
        if key.text == "args" and value.kind == "map":
            said["args"] = _to_json(value)
        elif value.kind != "text":
            raise _case_error(path, value.line, f"`{key.text}` is {value.noun}", "Write text.")
        else:
            said[key.text] = value.text
    expect = said.get("expect", "")
    if expect not in EFFECTS:
        what = f"case {number} expects {shown(expect) or 'nothing'}"
        raise _case_error(path, node.line, what, "Expect allow, ask or deny.")
    if said.get("by", "model") not in ("model", "user", "host"):
        raise _case_error(path, node.line, f"case {number} is by nobody", "Write `by: model`, user or host.")
    texts = {name: said[name] for name in _TEXTS if name in said}
    name = said.get("name") or " ".join(str(said[one]) for one in ("point", "skill", "tool", "command") if one in said)
    return PolicyCase(
        name=name or f"case {number}",
        line=node.line,
        question=PolicyQuestion(**texts, arguments=said.get("args")),
        expect=expect,
        rule=said.get("rule", ""),
    )


def _to_json(node: Node) -> Any:
    """Convert the arguments of a call: all scalars are text, as most arguments are."""
    if node.kind == "list":
        return [_to_json(item) for item in node.items]
    if node.kind == "map":
        return {key.text: _to_json(value) for key, value in node.pairs}
    return node.text


def _case_error(path: str, line: int, what: str, hint: str) -> PolicyInvalid:
    return PolicyInvalid(f"{shown(path, 300)}:{line}: {what}.", hint=hint, path=path, line=line)
