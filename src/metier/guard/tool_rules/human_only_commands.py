"""Commands by which people decide about skills: no agent decides about itself by calling one of them.

This sees through quotes, wrappers, links, modules that Python is told to run and code that interpreters are given, and
not through everything that a program can do: a copy under another name is not known. Whoever gets by it has neither a
terminal nor a token, without which those commands decide nothing once people were added or an administrator's policy
is in force.
"""

from __future__ import annotations

import functools
import os
import re
from typing import TYPE_CHECKING

from metier.guard.tool_rules.matching import forbids
from metier.guard.tool_rules.patterns import Match
from metier.skill.tool_rules import canonical_tool, parse_rules

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.guard.decision import Action
    from metier.skill.tool_rules import ToolRule

_VERBS = (
    *("approve grant", "approve deny", "approve revoke", "propose approve", "propose reject", "store restore"),
    *("quarantine release", "trust", "user", "deploy", "rollback", "listing"),
    *("registry yank", "registry deprecate"),
    *("add", "remove", "update", "install", "publish", "packages", "protect", "init", "hook"),
    *("serve", "login", "logout", "api"),
)
_MAX_PATHS = 32
_BETWEEN = ("", " -*")
"""What may stand before the verb: nothing, or options of the command itself, such as `--skills DIR`."""
_VERB = "(?:" + "|".join(_VERBS).replace(" ", r"\W+") + ")"
_QUOTING = re.compile(r"\\\n|[\\'\"]")
# So few options that no text makes looking for them take long.
_CALL = re.compile(
    r"\bmetier(?:[\s,=]+-[^\s,=]*(?:[\s,=]+[^-\s,=][^\s,=]*)?){0,8}\W+"
    rf"(?:{_VERB}\b|scan\b[^\n;|&]{{0,500}}--k|sync\b[^\n;|&]{{0,500}}--a)"
)
_DECIDING = re.compile(rf"\b(?:{_VERB}|scan)\b")
_MODULE = re.compile(r"\bmetier[./](?:cli|__main__)\b|\b(?:run|import)_module\(\W*metier\b|-m\W+metier\b")
"""Code that reaches the command without its name before the verb."""
_QUOTED_VERB = re.compile(rf"""["']{_VERB}\b""")
_INTERPRETERS = re.compile(
    r"perl[0-9.]*|ruby[0-9.]*|node|nodejs|deno|bun|php[0-9.]*|lua[\w.]*|[gmn]?awk|"
    r"osascript|tclsh[0-9.]*|Rscript|julia|n?vim?|emacs|gdb|sqlite3"
)
_PATH = re.compile(r"[^\s'\"`;|&()<>$]*/[^\s'\"`;|&()<>$]+")
_UNMISTAKABLE = re.compile(r"\b(?:approve\s+(?:grant|deny|revoke)|propose\s+(?:approve|reject)|quarantine\s+release)\b")
"""What is about nothing else, whatever the program before it turns out to be: `${m}ier approve grant`."""


@functools.cache
def _rules() -> tuple[ToolRule, ...]:
    # `--keep` may be shortened, and makes of a look at a skill the result that approvals are given by;
    # `--accept-findings` says that what the scanner found does not matter.
    verbs = (*(f"{verb}:*" for verb in _VERBS), "scan *--k*", "sync *--a*")
    return parse_rules([f"Bash(metier{options} {verb})" for options in _BETWEEN for verb in verbs])


def match_human_only(action: Action, code: Iterable[str]) -> Match | None:
    """The match for a call that decides about skills by the `code` that it runs, or None.

    >>> from metier.guard import Action
    >>> command = "'met'ier approve grant r-1"
    >>> match_human_only(Action(point="call", tool="Bash", arguments={"command": command}), [command]).rule.text
    'Bash(metier approve grant:*)'
    """
    is_shell = canonical_tool(action.tool) == "bash"
    for text in code:
        plain = _QUOTING.sub("", text)
        if not is_shell:
            # Some tools have a shell and are called otherwise; what else they run cannot be read here.
            if found := _in_code(text):
                return found
        elif _is_about(plain, action.workspace):
            found = forbids(_rules(), action.tool, action.arguments, workspace=action.workspace)
            if found := found or _in_interpreters(text):
                return found
    return None


def _is_about(plain: str, workspace: str) -> bool:
    """Whether a command line may have to do with deciding: it names the program, or a link to it."""
    if "metier" in plain or _UNMISTAKABLE.search(plain):
        return True
    if "/" not in plain or not _DECIDING.search(plain):
        return False
    from metier.guard.shell.paths import link_names

    paths = (os.path.join(workspace or os.getcwd(), path) for path in _PATH.findall(plain)[:_MAX_PATHS])
    return any("metier" in link_names(path) for path in paths)


def _in_code(text: str) -> Match | None:
    """The match for code of any language that calls the command, or its module."""
    found = _CALL.search(_QUOTING.sub("", text)) or (_MODULE.search(text) and _QUOTED_VERB.search(text))
    if not found:
        return None
    words = " ".join(re.findall(r"\w+", found[0]))
    return Match(allowed=False, reason=f"`{words}` is in what it would run.")


def _in_interpreters(text: str) -> Match | None:
    """The match for code that a command gives to an interpreter, as a word or as its input."""
    from metier.guard.shell.effects import program_name
    from metier.guard.shell.launchers import is_python
    from metier.guard.shell.lexer import UnreadableCommand
    from metier.guard.shell.parser import parse_script

    try:
        commands = parse_script(text).commands
    except UnreadableCommand:
        return None
    for command in commands:
        programs = [program_name(word.text) for word in command.words]
        if any(is_python(program) or _INTERPRETERS.fullmatch(program) for program in programs):
            code = text if "<<" in text else "\n".join(word.text for word in command.words)
            if found := _in_code(code):
                return found
    return None
