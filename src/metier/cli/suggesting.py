"""The command or option that somebody meant who wrote another: a slip of the fingers, or the word of another tool."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from metier.skill.diagnostic import shown

if TYPE_CHECKING:
    from collections.abc import Collection

_PLACES = "~/.metier/skills is for you, .metier/skills for a project"
_OTHER_WORDS = {
    "list": "ls dir skills index",
    "search": "find query grep",
    "show": "info inspect view describe details get",
    "read": "cat print open",
    "validate": "check lint verify test",
    "new": "init create generate scaffold template",
    "run": "exec execute start",
    "ask": "prompt do",
    "chat": "talk repl",
    "mcp": "serve server",
    "sync": "export copy link",
    "scan": "security analyze analyse",
    "explain": "why can",
    "approve list": "approvals requests pending",
    "approve grant": "grant allow accept",
    "approve deny": "deny reject",
    "propose new": "submit suggest",
    "quarantine": "block ban disable revoke",
    "release": "unblock enable",
    "rollback": "undo revert restore",
    "history": "versions diff changes",
    "audit tail": "log logs events",
    "user list": "users people whoami",
    "token new": "login auth",
    "store backup": "backup",
    "doctor": "status diagnose health config",
    "--version": "version",
}
_WORD_OF = {word: name for name, words in _OTHER_WORDS.items() for word in words.split()}
_SENTENCE_OF = {
    **dict.fromkeys(
        ("install", "add", "import"),
        f"a skill is a folder, and copying it installs it ({_PLACES}); `metier deploy` gives it to everybody, "
        "`metier mcp --install` sets up a client",
    ),
    **dict.fromkeys(
        ("uninstall", "remove", "rm", "delete"), f"removing its folder removes a skill ({_PLACES}); see `metier list`"
    ),
    **dict.fromkeys(("update", "upgrade", "publish"), "`metier deploy` puts a skill's new content in place"),
}


def suggestion(word: str, known: Collection[str], command: str) -> str:
    """The sentence about a word that is none of those which may follow a command.

    >>> suggestion("lsit", ["list", "show"], "metier")
    "there is no command 'lsit': did you mean `metier list`?"
    """
    is_command = command == "metier"
    said = f"there is no command {shown(word)!r}" if is_command else f"`{command}` has no verb {shown(word)!r}"
    if is_command and word in _SENTENCE_OF:
        return f"{said}: {_SENTENCE_OF[word]}"
    meant = _WORD_OF.get(word.lower()) if is_command else None
    close = [meant] if meant else closest(word.lower(), known)
    if close:
        return f"{said}: did you mean {' or '.join(f'`{command} {one}`' for one in close)}?"
    return f"{said}: `metier help` lists them" if is_command else f"{said}: verbs are {', '.join(known)}"


def closest(word: str, known: Collection[str]) -> list[str]:
    """The words that are so like another that it may be a slip of one of them, the likeliest first."""
    return difflib.get_close_matches(word[:100], known, n=2, cutoff=0.6)
