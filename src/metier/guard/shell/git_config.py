"""Settings of git: which are mere taste, and when `git config` only reads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.guard.shell.starting import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.guard.shell.scanner import Word

_SAFE = re.compile(
    r"(advice\.\w+|branch\.[^=\n]+\.(remote|merge|rebase)|color\.[\w.]+|column\.\w+|commit\.gpgsign|"
    r"core\.(abbrev|autocrlf|eol|filemode|ignorecase|longpaths|quotepath|safecrlf|whitespace)|"
    r"diff\.(algorithm|context|mnemonicprefix|noprefix|renames)|fetch\.prune|gc\.auto|http\.version|"
    r"init\.defaultbranch|log\.\w+|merge\.(conflictstyle|ff)|pull\.(ff|rebase)|push\.(autosetupremote|default)|"
    r"rebase\.(autosquash|autostash)|tag\.(gpgsign|sort)|user\.(email|name))",
    re.IGNORECASE,
)
_HELPER = re.compile(r"\w+::")
_READS = frozenset({"-l", "--get", "--get-all", "--get-color", "--get-regexp", "--get-urlmatch", "--list"})
_PLAIN = frozenset({
    "--add", "--all", "--bool", "--global", "--int", "--local", "--replace-all", "--show-origin", "--show-scope",
    "--system", "--unset", "--unset-all", "--worktree",
})  # fmt: skip
_WITH_READING = frozenset({"-z", "--includes", "--name-only", "--no-includes", "--null", "--path"})
_VALUED_WITH_READING = frozenset({"-f", "--blob", "--default", "--file", "--type"})
_VERBS = frozenset({"edit", "get", "list", "set", "unset"})


def is_safe_setting(text: str) -> bool:
    """Whether `name=value` is a setting that makes git start nothing.

    >>> is_safe_setting("user.name=me"), is_safe_setting("core.pager=less")
    (True, False)
    """
    name, _, value = text.partition("=")
    return _SAFE.fullmatch(name) is not None and not _HELPER.match(value)


def config_problems(rest: list[tuple[int, Word]]) -> Iterator[Problem]:
    """Why the words after `git config` may make git start something later."""
    if not rest:
        return
    problem = Problem("`git config` can make git start other programs", rest[-1][0])
    if any(word.free for _, word in rest):
        yield problem
        return
    options, operands = _parted([word for _, word in rest])
    verb = operands[0].text if operands and operands[0].text in _VERBS else ""
    if verb:
        more, operands = _parted(operands[1:])
        options |= more
    if len(operands) > 1 and not operands[0].is_known:
        yield problem
        return
    reads = bool(_READS & options) or verb in ("get", "list")
    known = _PLAIN | _READS | _WITH_READING | _VALUED_WITH_READING if reads else _PLAIN
    is_late = any(word.text.startswith("-") for word in operands)
    is_setting = not reads and len(operands) > 1
    is_safe = not is_setting or is_safe_setting(f"{operands[0].text}={operands[1].text}")
    if verb == "edit" or is_late or not is_safe or not known.issuperset(options):
        yield problem


def _parted(words: list[Word]) -> tuple[set[str], list[Word]]:
    """The options before the first operand, and what follows them."""
    options: set[str] = set()
    i = 0
    while i < len(words):
        name, equals, _ = words[i].text.partition("=")
        if not name.startswith("-"):
            # What may fall apart may become an option, and is named like none.
            return options | ({words[i].text} if words[i].splits else set()), words[i:]
        options.add(name)
        i += 1 if equals or name not in _VALUED_WITH_READING else 2
    return options, []
