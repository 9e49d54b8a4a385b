"""Rules of the policy in the words of a client's own permission lists: a second line of defence behind the hook.

Only what refuses or asks is written, and only to lists in which the strictest rule counts, so that nothing is loosened
that somebody set. Whatever a list cannot say is left to the hook, and told.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass, field
from metier._paths import is_inside
from metier.cli.hook_files import HOOK_FILES
from metier.guard.files.file_access import SECRET_IN_HOME, SECRET_NAMES
from metier.library.clients import in_home
from metier.library.places import project_root

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from metier.guard.governance import Governance
    from metier.skill.tool_rules import ToolRule

_PREFIX = re.compile(r"([\w./+@=,-]+(?: [\w./+@=,-]+)*)(?::\*| \*)").fullmatch
"""A pattern for commands that begin with some words."""
_CLAUDE_NAMES = {
    "bash": "Bash", "read": "Read", "write": "Write", "edit": "Edit", "notebookedit": "NotebookEdit", "glob": "Glob",
    "grep": "Grep", "webfetch": "WebFetch", "websearch": "WebSearch", "task": "Agent", "skill": "Skill",
}  # fmt: skip
_GEMINI_NAMES = {
    "bash": "run_shell_command", "read": "read_file", "write": "write_file", "edit": "replace", "glob": "glob",
    "grep": "grep_search", "ls": "list_directory", "webfetch": "web_fetch", "websearch": "google_web_search",
    "skill": "activate_skill",
}  # fmt: skip
_HEADER = "# Written by `metier protect {0}` from the policy; `metier protect {0} --remove` takes it away.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPermissions:
    """The permissions of a client that follow from the policy."""

    beside_hooks: Mapping[str, Any] = field(default_factory=dict)
    """Data for the file of the hooks."""
    listed: dict[str, Any] | str | None = None
    """The content of the file for lists alone."""
    unexpressed: tuple[str, ...] = ()
    """The rules that only the hook enforces."""


def permissions_of(client: str, *, is_user: bool) -> ClientPermissions:
    """The permissions of a client that follow from the policy in force here, for a user or in a project."""
    from metier.guard.governance import Governance

    governance = Governance.default(os.getcwd())
    layers = governance.effective.tool_layers
    rules = [("deny", rule) for layer in layers for rule in layer.deny]
    rules += [("ask", rule) for layer in layers for rule in layer.ask]
    hooks = HOOK_FILES[client]
    line_of = _LINES.get(client) if is_user or hooks.project_lists or not hooks.user_lists else None
    said = [(effect, rule, line_of(effect, rule) if line_of else "") for effect, rule in rules]
    left = [f"{effect} {rule.text}" for effect, rule, line in said if not line]
    left += ["tools.allow" for layer in layers if layer.allow is not None]
    left += ["rules"] if governance.effective.origin("rules") else []
    lines = dict.fromkeys((effect, line) for effect, _, line in said if line)
    denied, asked = ([line for effect, line in lines if effect == word] for word in ("deny", "ask"))
    unexpressed = tuple(dict.fromkeys(left))
    if client == "claude-code":
        return ClientPermissions(beside_hooks=_claude_settings(governance, denied, asked), unexpressed=unexpressed)
    if client == "cursor":
        return ClientPermissions(listed={"permissions": {"deny": denied}} if denied else None, unexpressed=unexpressed)
    text = _HEADER.format(client) + "".join([*denied, *asked]) if denied or asked else None
    return ClientPermissions(listed=text, unexpressed=unexpressed)


def _claude_settings(governance: Governance, denied: list[str], asked: list[str]) -> dict[str, Any]:
    """Its permissions, with the files that no tool may see or change; a mention by `@` obeys them, too."""
    hidden = [f"~/{name}" for name in (*sorted(SECRET_NAMES), *SECRET_IN_HOME)]
    hidden += [f"**/{name}" for name in sorted(SECRET_NAMES)]
    own = governance.secret_paths(str(project_root(Path.cwd())))
    hidden += [_claude_path(path) for path in own if not any(path != one and is_inside(path, one) for one in own)]
    settings = _claude_path(in_home("{claude}/settings*.json", os.path.expanduser("~")))
    closed = ["~/.metier/**", "**/.metier/**", settings, "**/.claude/settings*.json"]
    closed += [_claude_path(one.path) for one in governance.effective.files]
    permissions: dict[str, list[str]] = {
        "deny": list(
            dict.fromkeys([*denied, *(f"Read({path})" for path in hidden), *(f"Edit({path})" for path in closed)])
        )
    }
    found: dict[str, Any] = {"permissions": permissions}
    if asked:
        permissions["ask"] = asked
    if governance.effective.narrow(None).injection != "allow":
        # It runs commands in the text of a skill without telling a hook.
        found["disableSkillShellExecution"] = True
    if governance.effective.protect_scripts == "sandbox" and sys.platform != "win32":
        # What runs in its sandbox it would no longer ask about; a script that we run has a sandbox of its own.
        ours = f"{shlex.join([sys.executable, '-I', '-m', 'metier'])} run *"
        found["sandbox"] = {"enabled": True, "autoAllowBashIfSandboxed": False, "excludedCommands": [ours]}
    return found


def _claude_path(path: str) -> str:
    """A path as its rules have it: from the home folder, or with a second separator in front."""
    home = os.path.expanduser("~")
    found = (
        f"~/{os.path.relpath(path, home)}" if is_inside(path, home) and path != home else f"/{os.path.abspath(path)}"
    )
    return found.replace(os.sep, "/")


def _claude_line(_effect: str, rule: ToolRule) -> str:
    """A rule as Claude Code has it.

    >>> from metier.skill.tool_rules import parse_rules
    >>> [_claude_line("deny", rule) for rule in parse_rules("Bash(git push:*) Write(/etc/x) Frobnicate")]
    ['Bash(git push:*)', 'Edit(//etc/x)', '']
    """
    name = rule.text.partition("(")[0] if rule.tool.startswith("mcp__") else _CLAUDE_NAMES.get(rule.tool, "")
    if rule.is_malformed or not name or (rule.pattern and name in ("Glob", "Grep", "NotebookEdit")):
        return ""
    if rule.pattern is None:
        return name
    root = "/" if name in ("Read", "Write", "Edit") and rule.pattern.startswith("/") else ""
    # Its rules for writing to a path go by the name of Edit.
    return f"{'Edit' if name == 'Write' else name}({root}{rule.pattern})"


def _command_prefix(rule: ToolRule) -> list[str]:
    """The words that a command of a rule begins with; none where it says anything else."""
    found = _PREFIX(rule.pattern or "") if rule.tool == "bash" and not rule.is_malformed else None
    return found[1].split() if found else []


def _codex_line(effect: str, rule: ToolRule) -> str:
    words, decision = _command_prefix(rule), "forbidden" if effect == "deny" else "prompt"
    why = json.dumps(f"The policy says so: {effect} {rule.text}")
    line = f'prefix_rule(pattern = {json.dumps(words)}, decision = "{decision}", justification = {why})\n'
    return line if words else ""


def _gemini_line(effect: str, rule: ToolRule) -> str:
    words, tool = _command_prefix(rule), _GEMINI_NAMES.get(rule.tool, "")
    # Its rule with the highest priority counts: one that asks might take the place of one that refuses.
    if effect != "deny" or rule.is_malformed or not tool or (rule.pattern is not None and not words):
        return ""
    prefix = f"commandPrefix = {json.dumps(' '.join(words))}\n" if words else ""
    why = json.dumps(f"The policy says so: deny {rule.text}", ensure_ascii=False)
    return f'\n[[rule]]\ntoolName = "{tool}"\n{prefix}decision = "deny"\npriority = 999\ndenyMessage = {why}\n'


def _cursor_line(effect: str, rule: ToolRule) -> str:
    words = _command_prefix(rule)
    if effect != "deny" or rule.is_malformed:
        return ""
    if words:
        return f"Shell({words[0]})" if len(words) == 1 else f"Shell({words[0]}:{' '.join(words[1:])}*)"
    name = {"read": "Read", "write": "Write", "edit": "Write"}.get(rule.tool, "")
    return f"{name}({rule.pattern or '**'})" if name else ""


_LINES: Mapping[str, Callable[[str, ToolRule], str]] = {
    "claude-code": _claude_line,
    "codex": _codex_line,
    "gemini": _gemini_line,
    "cursor": _cursor_line,
}
