"""Questions to policy: those of `metier policy explain`, and the cases of `metier policy test`."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from functools import cache
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass, replace
from metier.cli.exit_codes import FINE, PROBLEMS
from metier.cli.explain import tool_call
from metier.cli.output import Style, plural, print_json, table
from metier.cli.parser import library_of
from metier.dialect import CONTROL_TOOLS
from metier.errors import MetierError, PolicyInvalid, SkillNotFound
from metier.guard import Guard, MemoryLog, Subject
from metier.guard.policy.reader import read_regular_file
from metier.guard.policy.rules import EFFECTS
from metier.guard.policy.yaml_tree import read_tree
from metier.guard.policy_question import PolicyQuestion, answer, point_of
from metier.session.active_skills import subject_of
from metier.skill.names import is_taken_for
from metier.skill.untrusted_text import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier import Library
    from metier.guard.explanation import Explanation
    from metier.guard.policy.yaml_tree import Node
    from metier.library import Entry


_BRINGING = ("install", "update", "publish", "propose", "deploy")
"""Points at which a skill need not be here yet."""


def ask(question: PolicyQuestion, library_of: Callable[[], Library]) -> tuple[str, Explanation]:
    """Describe a question and answer it; asks nobody and records nothing."""
    point = point_of(question)
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
    tool = tool_call(question.tool, question.arguments, question.command)[0] if point == "tool-call" else ""
    return answer(
        Guard(audit=MemoryLog()),
        question,
        subject,
        rivals=rivals,
        workspace=os.path.abspath("."),
        is_control=tool in CONTROL_TOOLS,
    )


def _entry(library: Library, question: PolicyQuestion, point: str) -> Entry | None:
    if question.layer:
        return None
    try:
        return library.get(question.skill)
    except SkillNotFound:
        if point in _BRINGING:
            return None
        raise


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
