"""Paths that the words of a command may name, and the files of a repository itself among them."""

from __future__ import annotations

import glob
import os
import re
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from metier.guard.shell.lexer import UNKNOWN
from metier.skill.names import glob_matches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.guard.shell.lexer import ShellWord

MAX_MOVES = 6
"""Changes of folder in one command that are followed."""
_MAX_FOUND = 64
_MAX_NAMED = 2000
_MAX_LINKS = 40
_FLAT_BRACES = re.compile(r"([\w./@%+-]*)\{([\w./@%+-]*(?:,[\w./@%+-]*)+)\}([\w./@%+-]*)")


def is_relative(path: str) -> bool:
    """Whether a word names something that another folder has too.

    >>> is_relative("./run.sh"), is_relative("bin/x"), is_relative("/bin/x"), is_relative("git")
    (True, True, False, False)
    """
    return "/" in path and not path.startswith(("/", "-")) and "://" not in path


def may_be_repository_file(word: ShellWord) -> bool:
    """Whether a path may lead into the files of a repository itself."""
    if word.braces:
        words = _brace_words(word)
        return words is None or any(map(is_repository_file, words))
    is_given = not word.variables or any(word.variables) or word.breaks
    if word.free and is_given and not word.is_known:
        return not word.text.partition(UNKNOWN)[0].startswith("-") or "=" in word.text
    # A variable may be unset or fall apart.
    return any(is_repository_file(word.text.replace(UNKNOWN, instead)) for instead in ("*", "", "/"))


def _brace_words(word: ShellWord) -> list[str] | None:
    """The words that the braces of a word give; None if it has none, or such that are not read here."""
    flat = _FLAT_BRACES.fullmatch(word.braces)
    return [f"{flat[1]}{each}{flat[3]}" for each in flat[2].split(",")] if flat else None


def possible_paths(word: ShellWord, folders: Sequence[str]) -> list[str]:
    """The paths that a word may name, from any of some folders: files that are there, where a pattern finds them."""
    found: list[str] = []
    for folder in folders:
        for text in _brace_words(word) or [word.text]:
            text = text.replace(UNKNOWN, folder, 1) if word.firm else text
            if UNKNOWN not in text:
                found.append(os.path.join(folder, text))
                continue
            pattern = os.path.join(glob.escape(folder), text.replace(UNKNOWN, "*"))
            # A file that is put there need not exist yet.
            for each in (pattern, os.path.dirname(pattern)):
                found += islice(glob.iglob(each), _MAX_FOUND)
    return found


def found_paths(word: ShellWord, folder: str) -> list[str] | None:
    """The paths that a word with a pattern may name, with every folder on their way; None if they cannot be told.

    Programs have patterns too, so that one in quotes is followed as well.
    """
    if word.braces:
        return _brace_words(word)
    text = word.text.partition("::")[0]
    if text.startswith("/"):
        return None
    plain = "*".join(map(glob.escape, text.split(UNKNOWN)))
    found = [text.replace(UNKNOWN, "")]
    for pattern in dict.fromkeys((plain, text.replace(UNKNOWN, "*"))):
        parts = pattern.split("/")
        for count in range(1, len(parts) + 1):
            if not any(map(glob.has_magic, parts[:count])):
                continue
            path = os.path.join(glob.escape(folder), *parts[:count])
            try:
                found += islice(glob.iglob(path, include_hidden=True), _MAX_NAMED + 1)
            except (OSError, RecursionError, ValueError, re.error):
                return None
            if len(found) > _MAX_NAMED:
                return None
    return found


def reachable_folders(entered: Sequence[ShellWord], start: Sequence[str]) -> list[str]:
    """Every folder that a command may run in after some of the commands that enter the folders of these words."""
    found = list(start)
    for word in entered[:MAX_MOVES]:
        if len(found) <= _MAX_FOUND:
            found += possible_paths(word, found)
    return list(dict.fromkeys(found))


def link_names(path: str) -> Iterator[str]:
    """The name of each file on the way that links lead.

    A copy of a program, or another name of the same file on disk, cannot be told from a program of its own.
    """
    with suppress(OSError, ValueError):
        for _ in range(_MAX_LINKS):
            if not os.path.islink(path):
                break
            path = os.path.join(os.path.dirname(path), os.readlink(path))
            yield os.path.basename(path)


def is_repository_file(path: str) -> bool:
    """Whether a path leads into the files of a repository itself; a `*` may stand for anything.

    >>> [is_repository_file(path) for path in ("a/.git/hooks", ".gi*", "a.git", ".gitignore")]
    [True, True, False, False]
    """
    path = path.casefold()
    value = path.partition("=")[2] if path.startswith("-") else path
    # No star stands for a point at the beginning.
    return any(name.startswith(".") and glob_matches(name, ".git") for name in value.split("/"))
