"""Paths that the settings of git make it start or read."""

from __future__ import annotations

import contextlib
import os
import re
from itertools import islice
from typing import TYPE_CHECKING

from metier._lazy import pattern
from metier._paths import is_inside
from metier.guard.files.protected_names import FileCache

if TYPE_CHECKING:
    from collections.abc import Iterator

_STARTS = pattern(
    r"(?:\w*(?:askpass|cmd|command|editor|helper|hook|pager|program)|hookspath|fsmonitor|textconv|clean|smudge|process"
    r"|driver|external|difffilter|path|attributesfile|gitproxy|uploadpack|receivepack|templatedir)\Z"
)
_NAME_PATHS = ("hookspath", "path", "attributesfile", "templatedir")
_NAME_NO_PROGRAM = frozenset(
    {
        "email", "excludesfile", "fetch", "ignorerevsfile", "insteadof", "merge", "name", "push", "pushinsteadof",
        "pushurl", "remote", "signingkey", "template", "url", "worktree",
    }
)  # fmt: skip
# As git reads them: comments, sections, and names with values, in which quotes, escapes and ends of lines count.
_TOKEN = pattern(
    r"""[#;][^\n]*
    |\[[ \t]*(?P<section>[^\]"\n\s]*)[^\]"\n]*(?:"(?:[^"\\\n]|\\.)*"[^\]\n]*)?\]
    |(?P<key>[A-Za-z][A-Za-z0-9-]*)[ \t]*
     (?:=[ \t]*(?P<value>(?:[^"\\\n#;]|\\(?:\r?\n|.)|"(?:[^"\\\n]|\\(?:\r?\n|.))*"?)*))?""",
    re.VERBOSE,
)
_ESCAPED = pattern(r'\\(?:\r?\n|(.))|"')
_HERE = pattern(r"\$\{?PWD\}?|\$\(pwd\)|`pwd`|\$\(git rev-parse --show-toplevel\)")
_OF_PROGRAMS = frozenset({"browser", "imap", "instaweb", "pager", "sendemail", "svn", "web"})
"""Sections in which a key may be the name of a command, or of a program."""
HOOKS = (
    "applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg",
    "commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update",
    "proc-receive", "post-receive", "post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc",
    "post-rewrite", "sendemail-validate", "fsmonitor-watchman", "p4-changelist", "p4-prepare-changelist",
    "p4-post-changelist", "p4-pre-submit", "post-index-change",
)  # fmt: skip
_WORD = pattern(r"""'([^']*)'|"([^"]*)"|([^\s;|&(){}<>`"'$=,!]+)""")
_WORK_TREE = pattern(r"^\s*worktree\s*=(.*)$", re.MULTILINE | re.IGNORECASE)
_IS_WORD = pattern(r"[^\s/\\;|&<>$`'\"()]*")
_MOST_SETTINGS = 1024 * 1024
_MOST_INCLUDED = 64
_MOST_WORDS = 64
_MOST_NAME = 200


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


def repository_elsewhere(work_tree: str) -> str | None:
    """The repository of a work tree or a submodule, where that lies elsewhere and each of the two names the other."""
    file = os.path.join(work_tree, ".git")
    if not os.path.isfile(file):
        return None
    folder, *common = map(os.path.realpath, repository_folders(file) or ("",))
    back = _text_of(os.path.join(folder, "gitdir")).strip()
    if common:
        names_it = os.path.realpath(back) == os.path.realpath(file) and is_inside(folder, common[0])
        return common[0] if names_it else None
    named = _WORK_TREE.search(_text_of(os.path.join(folder, "config")))
    tree = os.path.realpath(os.path.join(folder, named[1].strip().strip('"'))) if named is not None else ""
    return folder if tree == os.path.realpath(work_tree) else None


def started_paths(folders: tuple[str, ...], work_tree: str) -> Iterator[str]:
    """The paths that the settings of a repository make git start or read.

    Some are absent, and there may be links in them.
    """
    files = [os.path.join(folder, name) for folder in folders for name in ("config", "config.worktree")]
    for folder in folders:
        with contextlib.suppress(OSError):
            trees = os.path.join(folder, "worktrees")
            files += [
                os.path.join(trees, name, "config.worktree") for name in islice(os.listdir(trees), _MOST_INCLUDED)
            ]
    return _named_in(files, work_tree)


def commonly_started_paths(work_tree: str) -> Iterator[str]:
    """The same for the settings of the user and of the machine, with the files that variables name for these."""
    named = [path for path in map(os.environ.get, ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")) if path]
    yield from named
    yield from _named_in(["/etc/gitconfig", *_user_files(), *named], work_tree)
    for key, words in _settings_in_variables():
        yield from _paths_of(key, words, (work_tree,))


def committer_variables(work_tree: str) -> dict[str, str]:
    """The user's name and address as variables of git, where the settings of a repository name none.

    Jobs have another home folder than the user, whose settings they do not see.
    """
    known = _committer_in(_user_files())
    own = _committer_in([f"{folder}/config" for folder in repository_folders(os.path.join(work_tree, ".git"))])
    return {
        f"GIT_{who}_{key.upper()}": value
        for key, value in known.items()
        if key not in own
        for who in ("AUTHOR", "COMMITTER")
    }


def _user_files() -> list[str]:
    """The settings of the user, the last of which count."""
    home = os.path.expanduser("~")
    configuration = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    return [os.path.join(configuration, "git", "config"), os.path.join(home, ".gitconfig")]


def _committer_in(files: list[str]) -> dict[str, str]:
    """Name and address of the section `user` in files of settings."""
    return {
        key: value[:_MOST_NAME]
        for file in files
        for section, key, value in _entries(file)
        if section == "user" and key in ("name", "email") and value and value.isprintable()
    }


def _entries(file: str) -> Iterator[tuple[str, str, str]]:
    """The settings of a file that have a value: section, key, and the value without quotes and escapes."""
    section = ""
    for matched in _TOKEN.finditer(_text_of(file)):
        section = section if matched["section"] is None else matched["section"].lower()
        if matched["value"]:
            yield section, matched["key"].lower(), _ESCAPED.sub(r"\1", matched["value"]).strip()


def _settings_in_variables() -> Iterator[tuple[str, tuple[str, ...]]]:
    """The settings that variables have instead of files."""
    count = os.environ.get("GIT_CONFIG_COUNT", "")
    for number in range(min(int(count), _MOST_INCLUDED) if count.isdecimal() else 0):
        key = os.environ.get(f"GIT_CONFIG_KEY_{number}", "").rpartition(".")[2].lower()
        yield key, _words(key, os.environ.get(f"GIT_CONFIG_VALUE_{number}", ""))


def _named_in(files: list[str], work_tree: str) -> Iterator[str]:
    waiting = list(files)
    seen: set[str] = set()
    while waiting and len(seen) < _MOST_INCLUDED:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        for key, words in _settings.get(file):
            for path in _paths_of(key, words, (work_tree, os.path.dirname(file))):
                yield path
                if key == "path":
                    waiting.append(path)


def _paths_of(key: str, words: tuple[str, ...], bases: tuple[str, ...]) -> Iterator[str]:
    """The paths that words may mean: of a key that starts something also absent ones, and else files that are there."""
    starts = _STARTS.match(key) is not None
    for word in words:
        for base in bases:
            path = os.path.join(base, os.path.expanduser(word))
            # A word such as `test` in `!npm test` is no folder, although there may be one.
            if key in _NAME_PATHS or (starts and "/" in word) or os.path.isfile(path):
                yield path


def _read_settings(file: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The settings in a file of git's that may name something to start or to read: the key of each, and its words."""
    found = []
    for section, key, value in _entries(file):
        if value.startswith("!") or section.partition(".")[0] in _OF_PROGRAMS:
            key = "command"
        if words := _words(key, value):
            found.append((key, words))
    return tuple(found)


def _words(key: str, value: str) -> tuple[str, ...]:
    """The words of a value, which may be a command line, and the value as a whole."""
    # A single word without a slash is a value, or a program that is looked for elsewhere.
    if key in _NAME_NO_PROGRAM or (key not in _NAME_PATHS and _IS_WORD.fullmatch(value)):
        return ()
    words = ("".join(found) for found in islice(_WORD.findall(_HERE.sub(".", value)), _MOST_WORDS))
    return tuple(dict.fromkeys(word for word in (value, *words) if word and "\0" not in word))


_settings: FileCache[tuple[tuple[str, tuple[str, ...]], ...]] = FileCache(_read_settings, (), follows_links=True)


def _text_of(file: str) -> str:
    """The text of a file; nothing where there is none, or a folder or a pipe in its place."""

    def open_at_once(path: str, flags: int) -> int:
        return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))

    try:
        with open(file, "rb", opener=open_at_once) as opened:
            return (opened.read(_MOST_SETTINGS) or b"").decode("utf-8", "surrogateescape")
    except (OSError, ValueError):
        return ""
