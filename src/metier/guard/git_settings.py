"""The files from which git starts something, or takes settings from, because its settings name them."""

from __future__ import annotations

import os
import re
from itertools import chain
from typing import TYPE_CHECKING

from metier.guard.folder_listings import Cached

if TYPE_CHECKING:
    from collections.abc import Iterator

_STARTS = re.compile(
    r"(?:\w*(?:askpass|cmd|command|editor|helper|hook|pager|program)|hookspath|fsmonitor|textconv|clean|smudge|process"
    r"|driver|external|difffilter|path|attributesfile|gitproxy|uploadpack|receivepack)\Z",
    re.IGNORECASE,
).match
_SETTING = re.compile(r"[ \t]*(?:\[[^\]]*\][ \t]*)?([A-Za-z][\w-]*)[ \t]*=[ \t]*(.*)")
_MOST_SETTINGS = 256 * 1024
_MOST_INCLUDED = 16
_FOR_ALL = ("hookspath", "fsmonitor", "path")
"""What is looked for in the settings of a user and a machine, most of which name programs that are elsewhere."""
_NAME_PATHS = ("hookspath", "path", "attributesfile")


def repository_folders(repository: str) -> tuple[str, ...]:
    """The folders of a repository: itself or, for a file `.git`, what that names, and the one that it shares.

    There may be links in them.
    """
    folder = repository
    if not os.path.isdir(repository):
        text = _text_of(repository).partition("\n")[0]
        if not text.startswith("gitdir:"):
            return ()
        folder = os.path.join(os.path.dirname(repository), text[7:].strip())
    common = _text_of(os.path.join(folder, "commondir")).partition("\n")[0].strip()
    return (folder, os.path.join(folder, common)) if common else (folder,)


def started_paths(folders: tuple[str, ...], work_tree: str) -> Iterator[str]:
    """The paths that the settings of a repository, its user and its machine make git start or read.

    Some are absent, and there may be links in them.
    """
    files = [os.path.join(folder, name) for folder in folders for name in ("config", "config.worktree")]
    return chain(_named_in(files, work_tree), _named_in(_settings_for_all(), work_tree, is_for_all=True))


def _settings_for_all() -> list[str]:
    home = os.path.expanduser("~")
    configuration = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    return ["/etc/gitconfig", os.path.join(configuration, "git", "config"), os.path.join(home, ".gitconfig")]


def _named_in(files: list[str], work_tree: str, *, is_for_all: bool = False) -> Iterator[str]:
    waiting = list(files)
    seen: set[str] = set()
    while waiting and len(seen) < _MOST_INCLUDED:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        for key, words in _settings.of(file):
            if is_for_all and key not in _FOR_ALL:
                continue
            for word in words:
                for base in (work_tree, os.path.dirname(file)):
                    path = os.path.join(base, os.path.expanduser(word))
                    # A word such as `test` in `!npm test` is no folder, although there may be one.
                    if key in _NAME_PATHS or "/" in word or os.path.isfile(path):
                        yield path
                    if key == "path" and os.path.isfile(path):
                        waiting.append(path)


def _read_settings(file: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The settings in a file of git's that name something to start or to read: the key of each, and its words."""
    found = []
    for line in _text_of(file).replace("\\\n", "").splitlines():
        matched = _SETTING.match(line)
        if matched and (matched[2].lstrip('"').startswith("!") or _STARTS(matched[1])):
            key, value = matched[1].lower(), matched[2].strip().strip('"').lstrip("!")
            words = value.replace('"', " ").replace("'", " ").split()[:32]
            # A path may have spaces in it.
            whole = [value.replace('"', "")] if key in _NAME_PATHS else []
            found.append((key, tuple(dict.fromkeys((*words, *whole)))))
    return tuple(found)


_settings: Cached[tuple[tuple[str, tuple[str, ...]], ...]] = Cached(_read_settings, (), follows=True)


def _text_of(file: str) -> str:
    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        return ""
    with os.fdopen(descriptor, "rb") as opened:
        try:
            return opened.read(_MOST_SETTINGS).decode("utf-8", "surrogateescape")
        except OSError:
            return ""
