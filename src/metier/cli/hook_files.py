"""The files in which clients name their hooks: one row for each client that `metier protect` knows.

A row says where the file lies, for which events a hook is written, in which form, and what a client cannot do.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from metier._json_object import value_at
from metier._lazy import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Mapping

_OUR_COMMAND = re.compile(r"\.metier[/\\]hook\b|-m metier\.serve\.client_hooks\b|\bmetier(?:\.exe)?\W+hook\b").search


@dataclass(frozen=True, slots=True, kw_only=True)
class HookFile:
    """The file of a client's hooks, or of its plugin."""

    user: str
    """The file for all projects of a user."""
    project: str
    """The file in a project."""
    user_lists: str = ""
    """The file for its own permission lists, where they have one of their own."""
    project_lists: str = ""
    is_shared: bool = True
    """Whether others who work on the project get its file, too."""
    deciding: tuple[str, ...] = ()
    """The events before something happens: their hooks refuse, and block where the policy says so if they fail."""
    observed: tuple[str, ...] = ()
    """The events of which the session learns."""
    handler: Mapping[str, Any] = field(default_factory=dict)
    """A hook beside its command."""
    closed: Mapping[str, Any] = field(default_factory=dict)
    """More of a deciding hook, where one that fails is to block."""
    matcher: str | None = None
    """The matcher of a group of hooks; None where hooks stand in no group."""
    top: Mapping[str, Any] = field(default_factory=dict)
    """More of the whole file."""
    plugin: str = ""
    """The file of ours that is the plugin, where the client has no configuration of hooks."""
    off: tuple[tuple[tuple[str, ...], Any], ...] = ()
    """Settings that switch hooks off: the keys, and the value or an item of the list."""
    other_settings: tuple[str, ...] = ()
    """Further files with such settings: absolute, or in a project."""
    then: str = ""
    """The step that is left to the user."""
    limits: tuple[str, ...] = ()
    """Sentences on what the client cannot do."""

    def content(self, deciding: str, observing: str, *, is_closed: bool) -> dict[str, Any]:
        """The hooks as the data of the file, by the command for events that decide and the one for others."""
        closed = self.closed if is_closed else {}
        hooks = {event: {**self.handler, "command": deciding, **closed} for event in self.deciding}
        hooks |= {event: {**self.handler, "command": observing} for event in self.observed}
        if self.matcher is not None:
            hooks = {event: {"matcher": self.matcher, "hooks": [hook]} for event, hook in hooks.items()}
        return {**self.top, "hooks": {event: [hook] for event, hook in hooks.items()}}

    def switched_off_by(self, data: Any) -> str:
        """The setting in the data of the file that switches hooks off; empty where none does."""
        for keys, value in self.off:
            found = value_at(data, *keys)
            if found is value or (isinstance(found, list) and value in found):
                return ".".join(keys)
        return ""


def is_our_hook(entry: object) -> bool:
    """Whether an entry of a list of hooks runs our program.

    >>> is_our_hook({"command": '"$HOME/.metier/hook" codex'}), is_our_hook({"command": "./check.sh"})
    (True, False)
    """
    return isinstance(entry, dict) and isinstance(entry.get("command"), str) and bool(_OUR_COMMAND(entry["command"]))


_NO_QUESTION = (
    "A hook cannot ask there: a call that somebody has to agree to is refused, and the refusal says how to agree."
)
_SAME_USER = "A program that it starts outside of a sandbox can do whatever you can."

HOOK_FILES: Mapping[str, HookFile] = {
    "claude-code": HookFile(
        user="{claude}/settings.json",
        project=".claude/settings.local.json",
        is_shared=False,
        deciding=("PreToolUse",),
        observed=("PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "SessionStart", "SessionEnd"),
        handler={"type": "command", "timeout": 60},
        closed={"onFailure": "block"},
        matcher="*",
        off=((("disableAllHooks",), True),),
        other_settings=(".claude/settings.json",),
        then="Start a new session of Claude Code; `/hooks` shows them.",
        limits=(
            "Files that a prompt mentions by `@` are read without a hook: the list of files that it may not read is "
            "written to its permissions instead.",
            "Started with `--bare`, `--safe-mode` or other `--setting-sources`, it runs no hook.",
            _SAME_USER,
        ),
    ),
    "codex": HookFile(
        user="{codex}/hooks.json",
        project=".codex/hooks.json",
        user_lists="{codex}/rules/metier.rules",
        project_lists=".codex/rules/metier.rules",
        deciding=("PreToolUse",),
        observed=("PostToolUse", "UserPromptSubmit", "SessionStart"),
        handler={"type": "command", "timeout": 60},
        matcher="*",
        then="Start `codex`, type `/hooks` and trust them: Codex runs no hook before that, nor one that changed since.",
        limits=(
            _NO_QUESTION,
            "Hooks that nobody trusted yet are skipped, and a hook that takes too long does not block.",
            "Started with `--disable hooks` or `--ignore-user-config`, it runs none.",
            "Text that is typed into a program which runs already is not told of.",
            "It has no tool for skills: one is in use once its SKILL.md was read.",
            _SAME_USER,
        ),
    ),
    "gemini": HookFile(
        user=".gemini/settings.json",
        project=".gemini/settings.json",
        user_lists=".gemini/policies/metier.toml",  # it reads none of a project
        deciding=("BeforeTool",),
        observed=("AfterTool", "BeforeAgent", "SessionStart", "SessionEnd"),
        handler={"type": "command", "name": "metier", "timeout": 60_000},
        matcher="*",
        off=((("hooksConfig", "enabled"), False), (("hooksConfig", "disabled"), "metier")),
        other_settings=("/etc/gemini-cli/settings.json",),
        then="Start a new session of Gemini CLI; `/hooks` shows them.",
        limits=(
            "In a folder that it does not trust it runs no hook, and no tool by itself.",
            "Files that a prompt mentions by `@` are read without a hook.",
            "Without a terminal nobody can answer its question: the call is not made, and the run waits to be ended.",
            _SAME_USER,
        ),
    ),
    "cursor": HookFile(
        user=".cursor/hooks.json",
        project=".cursor/hooks.json",
        user_lists=".cursor/cli-config.json",  # one of a project might take the place of the user's own
        # It tells of a call by a second event for shells, servers and files, which would be a second decision.
        deciding=("preToolUse",),
        observed=("postToolUse", "postToolUseFailure", "beforeSubmitPrompt", "sessionStart", "sessionEnd"),
        handler={"timeout": 60},
        closed={"failClosed": True},
        top={"version": 1},
        then="Its settings list them under Hooks; it reads the file again by itself.",
        limits=(
            _NO_QUESTION,
            "It has no tool for skills: one is in use once its SKILL.md was read.",
            "Files that a person attaches are read without a hook.",
            "Where its settings have it read the hooks of Claude Code, too, protect it by one of both.",
            _SAME_USER,
        ),
    ),
    "vscode": HookFile(
        user=".copilot/hooks/metier.json",
        project=".github/hooks/metier.json",
        deciding=("PreToolUse",),
        observed=("PostToolUse", "UserPromptSubmit", "SessionStart"),
        handler={"type": "command", "timeout": 60},
        top={"version": 1},
        then="Start a new chat; `Chat: Configure Hooks` shows them. Copilot CLI reads the same file.",
        limits=(
            "Hooks are a preview there, and an organisation can switch them off.",
            "A hook that takes too long does not block.",
            "It runs the hooks of Claude Code in the same project, too: protected for both, it asks twice.",
            _SAME_USER,
        ),
    ),
    "opencode": HookFile(
        user="{config}/opencode/plugins/metier.js",
        project=".opencode/plugins/metier.js",
        plugin="opencode.js",
        then="Start OpenCode again.",
        limits=(
            _NO_QUESTION,
            "Started with `--pure` it loads no plugin, and a plugin that cannot be loaded does not block.",
            "A plugin that is loaded later can change a call after it was decided about.",
            "Files that a person attaches are read without a hook.",
            _SAME_USER,
        ),
    ),
}
"""The clients that can be protected, by their names."""
