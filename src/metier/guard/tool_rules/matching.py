"""Matching of tool calls: calls that are inside rules which allow, and calls that rules which forbid touch.

A rule without a pattern is about every call of its tool. With one:

- shells: the words of a command; `git:*` and `git *` are `git` with any arguments, `git*` any command that begins so,
  `npm run build` exactly that. Every part of a compound command counts, and so does what a command starts, see
  `metier.guard.shell`. `* | sh` is a whole pipeline for rules that allow, and any neighbours in one for rules that
  forbid. Files of redirections need rules for `Read`, `Write` or `Edit` of their own.
- `Read`, `Write`, `Edit`, `Glob`, `Grep`, `LS`, `NotebookEdit`, `NotebookRead`: a path, see
  `metier.guard.tool_rules.path_patterns`. A rule is about the tool it names and about no other. The files of
  `apply_patch` are read, see `metier.guard.tool_rules.patches`.
- `WebFetch`: `domain:example.org`, `domain:*.example.org`, or a URL with `*` in it.
- any other tool: its only argument that is text, with `*` for anything.

No pattern allows a call with an argument whose meaning is not known, see `metier.guard.tool_rules.arguments`.

A command that cannot be read with certainty is not allowed by a rule with a pattern, and is forbidden by one.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from metier.guard.tool_rules.arguments import PATH_ARGUMENTS, PATH_TOOLS, PATHS_ARGUMENTS, UNDERSTOOD, URL_ARGUMENTS
from metier.guard.tool_rules.path_patterns import (
    forbidding_rule,
    path_is_within,
    path_may_be_within,
    path_may_hold,
    permitting_rule,
)
from metier.guard.tool_rules.patterns import Match, list_rules
from metier.skill import shown
from metier.skill.names import glob_matches
from metier.skill.tool_rules import canonical_tool, is_patch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from metier.skill.tool_rules import ToolRule

_SEARCHING = frozenset({"glob", "grep", "ls"})
_MAX_VALUES = 10_000
_EMPTY: tuple[Any, ...] = (None, "", False, (), [], {})


def permits(rules: Sequence[ToolRule], tool: str, arguments: Mapping[str, Any], *, workspace: str = "") -> Match:
    """The match for a call: allowed if all of it is inside the rules.

    >>> from metier.skill.tool_rules import parse_rules
    >>> rules = parse_rules("Bash(git:*) Read")
    >>> permits(rules, "Bash", {"command": "git status && git log | git shortlog"}).allowed
    True
    >>> print(permits(rules, "Bash", {"command": "git status; curl example.org"}).reason)
    `curl example.org` is not among what is allowed: Bash(git:*), Read.
    """
    name = canonical_tool(tool)
    if name == "edit" and is_patch(tool):
        return _permits_patch(rules, arguments, workspace)
    for rule in rules:
        # The most frequent answer, for every active skill at every call.
        if rule.pattern is None and not rule.is_malformed and rule.names(name):
            return _allow(rule)
    about = [rule for rule in rules if rule.names(name) and not rule.is_malformed]
    if not about:
        return Match(allowed=False, reason=f"The tool {shown(tool)} is not among what is allowed: {list_rules(rules)}.")
    if strange := unknown_argument(name, arguments):
        reason = f"No pattern knows what the argument {shown(strange)!r} of {shown(tool)} does; leave it out."
        return Match(allowed=False, reason=reason)
    if name == "bash":
        from metier.guard.tool_rules.commands import permits_command

        return permits_command(rules, arguments, workspace=workspace)
    for rule in about:
        if _is_permitted(rule.pattern or "", name, arguments, workspace):
            return _allow(rule)
    return Match(allowed=False, reason=f"This call of {shown(tool)} is not among what is allowed: {list_rules(rules)}.")


def forbids(rules: Sequence[ToolRule], tool: str, arguments: Mapping[str, Any], *, workspace: str = "") -> Match | None:
    """The rule that touches a call or may touch it, or None.

    >>> from metier.skill.tool_rules import parse_rules
    >>> rules = parse_rules("Bash(curl:*)")
    >>> print(forbids(rules, "Bash", {"command": "git log | sudo /usr/bin/curl -T - example.org"}).reason)
    `/usr/bin/curl -T - example.org` is forbidden by Bash(curl:*).
    >>> forbids(rules, "Bash", {"command": "git commit -m 'use curl'"}) is None
    True
    """
    name = canonical_tool(tool)
    if name == "edit" and is_patch(tool):
        return _forbids_patch(rules, arguments, workspace)
    about = [rule for rule in rules if rule.may_name(name)]
    for rule in about:
        if rule.is_malformed or rule.pattern is None:
            return Match(allowed=False, reason=f"The tool {shown(tool)} is forbidden by {shown(rule.text)}.", rule=rule)
    if name == "bash":
        from metier.guard.tool_rules.commands import forbids_command

        return forbids_command(rules, arguments, workspace=workspace)
    for rule in about:
        if _is_forbidden(rule.pattern or "", name, arguments, workspace):
            return Match(
                allowed=False, reason=f"This call of {shown(tool)} is forbidden by {shown(rule.text)}.", rule=rule
            )
    return None


def unknown_argument(tool: str, arguments: Mapping[str, Any]) -> str | None:
    """The name of an argument that patterns about a tool do not understand, if there is one.

    >>> unknown_argument("bash", {"command": "git status", "timeout": 5}) is None
    True
    >>> unknown_argument("bash", {"command": "git status", "then": "curl x"})
    'then'
    """
    known = UNDERSTOOD.get(tool)
    if known is None:
        return None
    for name, value in arguments.items():
        if name not in known and value not in _EMPTY:
            return name
        if name == "edits" and isinstance(value, list | tuple):
            for item in value:
                inner = unknown_argument(tool, item) if isinstance(item, dict) else name
                if inner is not None or any(each in PATH_ARGUMENTS + PATHS_ARGUMENTS for each in item):
                    return name
    return None


def _is_permitted(pattern: str, tool: str, arguments: Mapping[str, Any], workspace: str) -> bool:
    if tool in PATH_TOOLS:
        paths = _paths(tool, arguments)
        if paths is None:
            return False
        # A rule about everything below a folder lets a search name the folder.
        holds_all = tool in _SEARCHING and pattern.endswith(("/", "/**"))
        return all(
            path_is_within(pattern, path, workspace) or (holds_all and path_is_within(pattern, f"{path}/-", workspace))
            for path in paths
        )
    if tool == "webfetch":
        url = _url(arguments)
        return url is not None and _url_matches(pattern, *url)
    texts = list(_texts(list(arguments.values())))
    return len(texts) == 1 and glob_matches(pattern, texts[0])


def _is_forbidden(pattern: str, tool: str, arguments: Mapping[str, Any], workspace: str) -> bool:
    if tool in PATH_TOOLS:
        paths = _paths(tool, arguments)
        if paths is None:
            return True
        return any(
            path_may_be_within(pattern, path, workspace)
            or (tool in _SEARCHING and path_may_hold(pattern, path, workspace))
            for path in paths
        )
    if tool == "webfetch":
        url = _url(arguments)
        return url is None or _url_matches(pattern, *url)
    return any(glob_matches(pattern, text) for text in _texts(list(arguments.values())))


def _permits_patch(rules: Sequence[ToolRule], arguments: Mapping[str, Any], workspace: str) -> Match:
    """The match for a patch: allowed if every file of it is inside the rules."""
    from metier.guard.tool_rules.patches import patch_changes

    for tool, path in patch_changes(arguments):
        rule = permitting_rule(rules, tool, path, workspace)
        if rule is None:
            needed = f"The patch needs {tool.title()} for {_quote_path(path)}"
            return Match(allowed=False, reason=f"{needed}, and what is allowed is: {list_rules(rules)}.")
        match = _allow(rule)
    return match


def _forbids_patch(rules: Sequence[ToolRule], arguments: Mapping[str, Any], workspace: str) -> Match | None:
    """The rule that touches a file of a patch or may touch it, or None."""
    from metier.guard.tool_rules.patches import patch_changes

    for tool, path in patch_changes(arguments):
        # Whatever it does to a file, it is a tool for editing.
        for name in dict.fromkeys((tool, "edit")):
            rule = forbidding_rule(rules, name, path, workspace)
            if rule is not None:
                reason = f"The patch is about {_quote_path(path)}, forbidden by {shown(rule.text)}."
                return Match(allowed=False, reason=reason, rule=rule)
    return None


def _quote_path(path: str | None) -> str:
    return "files that cannot be read from it" if path is None else f"`{shown(path)}`"


def _allow(rule: ToolRule) -> Match:
    return Match(allowed=True, reason=f"{shown(rule.text)} allows it.", rule=rule)


def _paths(tool: str, arguments: Mapping[str, Any]) -> list[str] | None:
    """Every path that a call names; None when one is missing or no text."""
    values = [arguments[name] for name in PATH_ARGUMENTS if arguments.get(name) is not None]
    for name in PATHS_ARGUMENTS:
        several = arguments.get(name)
        if several is not None:
            values += several if isinstance(several, list | tuple) else [several]
    looked_for = ("pattern", "glob", "include") if tool == "glob" else ("glob", "include")
    if not all(_stays_below(arguments.get(name)) for name in looked_for):
        return None
    values += _patched(arguments.get("patch"))
    if not values:
        return ["."] if tool in _SEARCHING else None
    return values if all(isinstance(value, str) for value in values) else None


def _patched(patch: Any) -> Iterator[str]:
    """The files that a patch beside a path names."""
    lines = patch.splitlines() if isinstance(patch, str) else []
    for old, new in pairwise(lines):
        if old.startswith("--- ") and new.startswith("+++ "):
            names = [line[4:].partition("\t")[0].strip() for line in (old, new)]
            yield from (name.removeprefix("a/").removeprefix("b/") for name in names if name != "/dev/null")


def _stays_below(pattern: Any) -> bool:
    """Whether the pattern of a search stays below the folder that is searched."""
    if pattern is None:
        return True
    return isinstance(pattern, str) and not pattern.startswith(("/", "~", "\\")) and ".." not in pattern


def _url(arguments: Mapping[str, Any]) -> tuple[str, str] | None:
    """The host and the whole of the URL of a call; None when there is no such URL, or an odd one."""
    values = [arguments[name] for name in URL_ARGUMENTS if arguments.get(name) is not None]
    return plain_url(values[0]) if len(values) == 1 and isinstance(values[0], str) else None


def plain_url(text: str) -> tuple[str, str] | None:
    """The host and the whole of a URL, with scheme and host in lower case; None for one that has two readings.

    >>> plain_url("https://Example.com/a"), plain_url("https://example.com@evil.test/")
    (('example.com', 'https://example.com/a'), None)
    """
    from urllib.parse import urlsplit

    if not text.isascii() or not text.isprintable() or any(character in text for character in " \\"):
        return None
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    authority = f"{host}:{port}" if port is not None else host
    if parts.scheme not in ("http", "https") or parts.netloc.lower() != authority or not _is_host(host):
        return None
    return host, f"{parts.scheme}://{parts.netloc.lower()}{text[len(parts.scheme) + 3 + len(parts.netloc) :]}"


def _is_host(host: str) -> bool:
    labels = host.split(".")
    return len(host) <= 253 and all(
        label and label.replace("-", "").isalnum() and not label.startswith("-") for label in labels
    )


def _url_matches(pattern: str, host: str, url: str) -> bool:
    if pattern.startswith("domain:"):
        wanted = pattern.removeprefix("domain:").strip().lower()
        if wanted.startswith("*."):
            return host.endswith(wanted[1:]) and len(host) > len(wanted) - 1
        return wanted == "*" or host == wanted
    return glob_matches(pattern, url)


def _texts(value: Any) -> Iterator[str]:
    """Every text in the arguments of a call, up to a bound."""
    waiting = [value]
    for _ in range(_MAX_VALUES):
        if not waiting:
            return
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list | tuple):
            waiting += item
