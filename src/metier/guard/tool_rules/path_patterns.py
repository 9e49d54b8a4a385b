"""Patterns over paths, in the manner of `.gitignore`.

`docs/**` is everything below `docs` in the workspace, `*.md` (without a slash) every such file at any depth of it,
`/etc/hosts` or `//etc/hosts` a path from the root, `~/notes/*` one in the home folder. Within a name `*` stands for
anything and `?` for one character; `**` for any number of folders.

A path is compared as written, with `..` taken away, and as it is after following links, be `..` taken away before or
after. To be allowed all of these must fit; to be forbidden one is enough.
"""

from __future__ import annotations

import fnmatch
import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from metier.skill.names import path_fits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from metier.skill.tool_rules import ToolRule

MAX_PATH = 4096


class _ComparedPath(NamedTuple):
    """A path and what a pattern means, both as written or both after following links."""

    path: tuple[str, ...]
    """The names from the root."""
    root: tuple[str, ...]
    """The folder that the pattern begins in."""
    names: tuple[str, ...]
    """The names of the pattern below that folder, `**` for any number of folders."""

    def is_match(self, *more: str) -> bool:
        """Whether the path fits, with more names after the pattern's own."""
        size = len(self.root)
        return self.path[:size] == self.root and path_fits(
            list(map(_predicate, (*self.names, *more))), self.path[size:]
        )

    def is_on_the_way(self) -> bool:
        """Whether the path is a folder in which something may fit."""
        size = len(self.root)
        if len(self.path) <= size:
            return self.root[: len(self.path)] == self.path
        if self.path[:size] != self.root:
            return False
        for name, part in zip(self.names, self.path[size:], strict=False):
            fits = _predicate(name)
            if fits is None:
                return True
            if not fits(part):
                return False
        return len(self.path) - size < len(self.names)


def path_is_within(pattern: str, path: str, workspace: str = "") -> bool:
    """Whether a path is certainly like a pattern.

    >>> path_is_within("docs/**", "docs/a/b.md", "/project"), path_is_within("docs/**", "docs/../b.md", "/project")
    (True, False)
    >>> path_is_within("*.md", "/project/a/b.md", "/project"), path_is_within("*.md", "/etc/b.md", "/project")
    (True, False)
    """
    return not _is_odd(path) and all(
        view.is_match() for view in _compared_paths(pattern, path, workspace, floats=False)
    )


def path_may_be_within(pattern: str, path: str, workspace: str = "") -> bool:
    """Whether a path as written or after following links is like a pattern, or is in a folder that is.

    A pattern without a slash holds everywhere then, not only in the workspace.

    >>> path_may_be_within(".env", "/anywhere/.env", "/project"), path_may_be_within("secret", "secret/a", "/project")
    (True, True)
    """
    return _is_odd(path) or any(
        view.is_match() or view.is_match("**", "*") for view in _compared_paths(pattern, path, workspace, floats=True)
    )


def path_may_hold(pattern: str, path: str, workspace: str = "") -> bool:
    """Whether something that is like a pattern may lie below a folder.

    >>> path_may_hold("secret/**", ".", "/project"), path_may_hold("secret/**", "docs", "/project")
    (True, False)
    """
    return _is_odd(path) or any(view.is_on_the_way() for view in _compared_paths(pattern, path, workspace, floats=True))


def permitting_rule(rules: Sequence[ToolRule], tool: str, path: str | None, workspace: str = "") -> ToolRule | None:
    """The rule that allows a tool to use a file; None without one. A path of None is any file."""
    about = [rule for rule in rules if rule.names(tool) and not rule.is_malformed]
    for rule in about:
        if rule.pattern is None:
            return rule
    if path is None:
        return None
    return next((rule for rule in about if path_is_within(rule.pattern or "", path, workspace)), None)


def forbidding_rule(rules: Sequence[ToolRule], tool: str, path: str | None, workspace: str = "") -> ToolRule | None:
    """The rule that forbids a tool to use a file, or may forbid it; None without one. A path of None is any file."""
    about = [rule for rule in rules if rule.names(tool)]
    for rule in about:
        if rule.is_malformed or rule.pattern is None or path is None:
            return rule
    return next((rule for rule in about if path_may_be_within(rule.pattern or "", path or "", workspace)), None)


def _is_odd(path: str) -> bool:
    is_of_another_user = path.startswith("~") and path != "~" and not path.startswith("~/")
    return not path or len(path) > MAX_PATH or "\0" in path or is_of_another_user


def _compared_paths(pattern: str, path: str, workspace: str, *, floats: bool) -> Iterator[_ComparedPath]:
    """The path as written, with `..` taken away, and as it is found after following links, before or after that."""
    base = os.path.abspath(workspace or os.getcwd())
    full = os.path.join(base, os.path.expanduser(path))
    # Some take `..` away before they follow links, and others after.
    for path, is_real in ((os.path.normpath(full), False), (full, True), (os.path.normpath(full), True)):
        try:
            follow = os.path.realpath if is_real else os.path.normpath
            root, names = _located(pattern, follow(base), is_real=is_real, floats=floats)
            yield _ComparedPath(_parts(follow(path)), _parts(root), names)
        except (OSError, RecursionError, ValueError):
            yield _ComparedPath((), ("\0",), ())


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.replace(os.sep, "/").split("/") if part)


def _located(pattern: str, workspace: str, *, is_real: bool, floats: bool) -> tuple[str, tuple[str, ...]]:
    """The folder that a pattern begins in, and the names below it."""
    root = workspace
    names = tuple(name for name in _parts(pattern) if name != ".")
    if pattern.startswith("~/"):
        root, names = os.path.expanduser("~"), names[1:]
        root = os.path.realpath(root) if is_real else root
    elif pattern.startswith("/"):
        root = "/"
        if is_real and len(names) > 1 and "*" not in names[0] and "?" not in names[0]:
            # `/tmp` and `/var` are links on some systems, and no stranger can make one there.
            root, names = os.path.realpath("/" + names[0]), names[1:]
    elif "/" not in pattern.rstrip("/"):
        root, names = ("/" if floats else root), ("**", *names)
    if pattern.endswith(("/", "**")):
        names = (*names, "**", "*")
    return root, names


@lru_cache(maxsize=1024)
def _predicate(name: str) -> Callable[[str], object] | None:
    """A predicate for names like one with `*` and `?` in it; None for `**`."""
    return None if name == "**" else re.compile(fnmatch.translate(name.replace("[", "[[]"))).match
