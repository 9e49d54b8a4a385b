"""Commands by which people decide about skills: no agent decides about itself by calling one of them.

This sees through quotes and wrappers, and not through everything that a shell can do. Whoever gets by it has neither a
terminal nor a token, without which those commands decide nothing once people were added or an administrator's policy
is in force.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from metier.guard.tool_rules.matching import Match, forbids
from metier.guard.tool_rules.names import canonical_tool
from metier.guard.tool_rules.rules import parse_rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from metier.guard.decision import Action

_VERBS = (
    *("approve grant", "approve deny", "approve revoke", "propose approve", "propose reject", "store restore"),
    *("release", "trust", "user", "token", "deploy", "rollback"),
)
_CALLED = ("metier", "python -m metier", "python3 -m metier")
_BETWEEN = ("", " -*")
"""What may stand before the verb: nothing, or options of the command itself, such as `--skills DIR`."""
# `--keep` may be shortened, and makes of a look at a skill the result that approvals are given by; `--accept-findings`
# says that what the scanner found does not matter.
_RULES = parse_rules(
    [
        f"Bash({program}{options} {verb})"
        for program in _CALLED
        for options in _BETWEEN
        for verb in (*(f"{verb}:*" for verb in _VERBS), "scan *--k*", "sync *--a*")
    ]
)
_ARGUMENTS = ("cmd", "code", "command", "commands", "script")
_QUOTING = re.compile(r"\\\n|[\\'\"]")
# So few options that no text makes looking for them take long.
_CALL = re.compile(
    r"\bmetier(?:[\s,=]+-[^\s,=]*(?:[\s,=]+[^-\s,=][^\s,=]*)?){0,8}\W+(?:(?:"
    + "|".join(_VERBS).replace(" ", r"\W+")
    + r")\b|scan\b[^\n;|&]{0,500}--k|sync\b[^\n;|&]{0,500}--a)"
)
_UNMISTAKABLE = re.compile(r"\b(?:approve\s+(?:grant|deny|revoke)|propose\s+(?:approve|reject))\b")
"""What is about nothing else, whatever the program before it turns out to be: `${m}ier approve grant`."""


def has_code(arguments: Mapping[str, Any]) -> bool:
    """Whether a tool is given something to run, by the names of its arguments."""
    return any(name in arguments for name in _ARGUMENTS)


def for_people(action: Action) -> Match | None:
    """The match for a call that decides about skills, or None.

    >>> from metier.guard import Action
    >>> call = Action(point="call", tool="Bash", arguments={"command": "'met'ier approve grant r-1"})
    >>> for_people(call).rule.text
    'Bash(metier approve grant:*)'
    """
    is_shell = canonical_tool(action.tool) == "bash"
    for text in _code(action.arguments):
        plain = _QUOTING.sub("", text)
        if is_shell:
            if "metier" in plain or _UNMISTAKABLE.search(plain):
                return forbids(_RULES, action.tool, action.arguments, workspace=action.workspace)
        elif found := _CALL.search(plain):
            # Some tools have a shell and are called otherwise; what else they run cannot be read here.
            words = " ".join(re.findall(r"\w+", found[0]))
            return Match(allowed=False, reason=f"`{words}` is in what it would run.")
    return None


def _code(arguments: Mapping[str, Any]) -> Iterator[str]:
    for name in _ARGUMENTS:
        given = arguments.get(name)
        if isinstance(given, list | tuple):
            yield " ".join(map(str, given))
        elif isinstance(given, str):
            yield given
