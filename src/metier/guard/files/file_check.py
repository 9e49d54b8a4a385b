"""Check of a tool call against the files that are closed to tools, whichever tool makes it.

The files are read from the name of the tool and its arguments. Tools of other programs have many names. One whose name
has a verb of reading, and none of writing, reads from the paths that it is given. Any other is taken to write, to every
path and to each other text that could be one, whatever its argument is called. The files of patches are read from the
patch, of every form that some program takes.

A path is judged as it is written and by where it leads, with `..` taken away before or after links are followed: to be
open all of these must be.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from metier._paths import real_path
from metier.guard.decision import refuse
from metier.guard.files.protected_names import protected_name_in
from metier.guard.tool_rules.patches import changed_files
from metier.hints import list_files
from metier.skill import shown
from metier.skill.tool_rules import canonical_tool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.guard.decision import Action, Decision
    from metier.guard.files.file_access import FileAccess, WorkspaceFiles

_VERBS = (
    "append apply chmod chown copy cp create delete download dump edit export extract generate insert install link "
    "make mkdir modify move multiedit mv notebookedit overwrite patch put remove rename replace restore rm save store "
    "symlink to touch trash truncate unlink unzip update upsert write"
)
_ENDS = (
    "cwd destination dest dir directories directory dirname dirs dst file filename filenames filepath filepaths files "
    "folder folders from include location out output path paths source src target to uri workdir"
)
_READS = (
    "analyze bash browse calculate cat check compare count describe diff exec execute exists explain fetch find get "
    "glob grep head info inspect list lookup ls navigate open parse peek print query read resolve run scan search "
    "select shell show stat status summarize tail task terminal test todo tree validate verify view web"
)
"""Verbs and nouns of tools that take paths to look at, and of shells, whose commands have rules of their own."""
_CONTENT_ENDS = (
    "body code command comment content contents data description instruction instructions markdown message new note "
    "old prompt query question reason replacement str string subject summary text thought title value"
)
_CONTENTS = frozenset(_CONTENT_ENDS.split())
"""Last words of the names of arguments that are written, or said, and are no paths."""
_WRITING = frozenset(_VERBS.split())
_READING = frozenset(_READS.split())
_EDITORS = frozenset({"str_replace_based_edit_tool", "str_replace_editor", "text_editor"})
"""Tools that edit, or only show a file, by the command that they are given; others pass over such an argument."""
_PATHS = frozenset(_ENDS.split())
"""Last words of the names of arguments that are paths."""
_FOLDERS = frozenset({"base", "cwd", "dir", "directory", "folder", "repo", "root", "workdir"})
_PATCHES = frozenset({"changes", "diff", "diffs", "input", "operation", "operations", "patch", "patches"})
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NESTED = (Mapping, list, tuple)
_LOOKED_INTO = (str, *_NESTED)
_MAX_VALUES = 10_000
_MAX_LINE = 4_096
_HEADER = re.compile(
    r"[ \t]*(?:\*\*\*[^:]{0,40}:|---(?=[ \t])|\+\+\+(?=[ \t])|Index:|rename (?:from|to)(?=[ \t])"
    r"|copy (?:from|to)(?=[ \t])|diff (?:--git|--cc|--combined)?(?=[ \t]))[ \t]*(?P<path>.+?)[ \t]*\Z"
).match
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_TOKEN = re.compile(r"[^\s\"'`<>()\[\]{},;]+")
_LONGEST = 32_768
_TOO_MANY = refuse(
    reason="The call has more texts that could be paths than are looked at.",
    check="built in: protected places",
    code="protected-place",
    hint="Make several calls of less each.",
)


def check_files(action: Action, files: WorkspaceFiles) -> Decision | None:
    """The decision against a call that writes to a closed file, or reads a hidden one; None without a reason."""
    if action.is_control:
        return None
    targets = file_targets(action.tool, action.arguments)
    if targets.is_cut:
        return _TOO_MANY
    if not targets.written and not targets.read:
        return None
    access = files.access(action.workspace, action.skill_folders() if action.skill_folders is not None else ())
    base = action.workspace if os.path.isabs(action.workspace) else os.path.abspath(action.workspace)
    for path in targets.read:
        if any(map(access.hides, _real_paths(path, base))):
            return _refuse_hidden(path)
    for path in targets.written:
        place = _protected_name(path, base, access)
        if place is not None:
            return _refuse_protected(path, place)
    real = {one: path for path in targets.written for one in _real_paths(path, base)}
    if not real:
        return None
    # One look at the workspace for all of them.
    places = access.closing_places([(one, False) for one in real])
    return next(
        (_refuse_protected(path, place) for path, place in zip(real.values(), places, strict=True) if place), None
    )


class FileTargets(NamedTuple):
    """Paths as a call names them."""

    written: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    is_cut: bool = False
    """There are more than anybody looks at."""


_NO_TARGETS = FileTargets()


def file_targets(tool: str, arguments: Mapping[str, Any]) -> FileTargets:
    """The paths that a call writes to, and those that it reads.

    >>> file_targets("move_file", {"source": "a.md", "destination": ".envrc"}).written
    ('.envrc', 'a.md')
    >>> file_targets("Read", {"file_path": "a.md"}).read
    ('a.md',)
    >>> file_targets("apply_patch", {"input": "--- a/x\\n+++ b/.git/config\\n@@ -1 +1 @@\\n-a\\n+b\\n"}).written
    ('a/x', 'x', 'b/.git/config', '.git/config', 'config')
    """
    if not arguments:
        return _NO_TARGETS
    writes, takes_patch = _tool_kind(tool)
    if writes and arguments.get("command") == "view" and tool.lower() in _EDITORS:
        writes = False
    if not writes and not any(
        _last_word(key) in _PATHS or isinstance(value, _NESTED) for key, value in arguments.items()
    ):
        return _NO_TARGETS
    if not takes_patch and all(isinstance(value, str) and _is_content(key) for key, value in arguments.items()):
        return _NO_TARGETS
    walk = _Texts(arguments, with_others=writes)
    found = walk.paths
    if writes:
        found = [*found, *(_patched_files(arguments, names_files=bool(found)) if takes_patch else ()), *walk.others]
    paths = _with_folders(found, arguments)
    is_cut = walk.is_cut or len(paths) > _MAX_VALUES
    return FileTargets(written=paths, is_cut=is_cut) if writes else FileTargets(read=paths, is_cut=is_cut)


@functools.lru_cache(maxsize=1024)
def _tool_kind(tool: str) -> tuple[bool, bool]:
    """Two answers about a tool: whether it may write, and whether it takes patches."""
    last = tool.rpartition("__")[2]
    name = canonical_tool(last)
    words = {word.lower() for word in _PARTS.findall(last)} | {name}
    return bool(words & _WRITING) or not words & _READING, name == "edit" or bool(words & {"patch", "diff"})


class _Texts:
    """The texts in the arguments of a call, the last ones first."""

    def __init__(self, arguments: Any, *, with_others: bool = False) -> None:
        self.paths: list[str] = []
        """The texts whose arguments are called paths."""
        self.others: list[str] = []
        """Each other line, and names of arguments, but for what is said to be content; none without `with_others`."""
        waiting: list[tuple[Any, bool, bool]] = [(arguments, False, not with_others)]
        steps = 0
        while waiting and steps < _MAX_VALUES:
            item, is_path, is_content = waiting.pop()
            steps += 1
            if isinstance(item, Mapping):
                for key, inner in item.items():
                    if isinstance(key, str) and is_path:
                        self.paths.append(key)  # `files: {"a.md": "text"}`
                    elif isinstance(key, str) and not is_content and protected_name_in(key) is not None:
                        self.others.append(key)
                    if isinstance(inner, _LOOKED_INTO):
                        word = _last_word(key)
                        waiting.append((inner, word in _PATHS, is_content or word in _CONTENTS))
            elif isinstance(item, list | tuple):
                waiting.extend((inner, is_path, is_content) for inner in item if isinstance(inner, _LOOKED_INTO))
            else:
                if is_path and item:
                    self.paths.append(item)
                if not is_content and item.lstrip().startswith(("{", "[")):
                    with contextlib.suppress(ValueError, RecursionError):
                        waiting.append((json.loads(item), False, False))
                elif not is_content and _is_line(item):
                    self.others.append(item)
        self.is_cut = bool(waiting)


def _with_folders(found: list[str], arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The paths, and the same in the folder that a call wants to be made in, also as a tool for addresses has them."""
    paths = dict.fromkeys((*found, *(path.strip(" \t'\"`") for path in found)))
    folders = [text for key, text in arguments.items() if isinstance(text, str) and _last_word(key) in _FOLDERS]
    if folders:
        inside = (f"{folder}/{path}" for folder in folders if folder for path in paths if not path.startswith("/"))
        # One more than anybody looks at says that there are more.
        paths |= dict.fromkeys(islice(inside, _MAX_VALUES + 1))
    return (*paths, *(unquote(path) for path in paths if "%" in path))


def _is_line(text: str) -> bool:
    return 0 < len(text) <= _MAX_LINE and "\n" not in text


@functools.lru_cache(maxsize=1024)
def _is_content(key: object) -> bool:
    """Whether an argument is written, or said, by its name, which is no path itself."""
    word = _last_word(key)
    return isinstance(key, str) and word in _CONTENTS and word not in _PATHS and protected_name_in(key) is None


@functools.lru_cache(maxsize=1024)
def _last_word(key: object) -> str:
    words: list[str] = [word.lower() for word in _PARTS.findall(key)] if isinstance(key, str) else []
    return "filename" if words[-2:] == ["file", "name"] else words[-1] if words else ""


def _patched_files(arguments: Mapping[str, Any], *, names_files: bool) -> Iterator[str]:
    """The files of every patch in the arguments, which may have named files besides."""
    sure = changed_files(arguments)
    if sure is not None:
        yield from sure
        return
    texts = [text for key, text in arguments.items() if isinstance(text, str) and _last_word(key) in _PATCHES]
    if not texts and not names_files:
        texts = [text for text in arguments.values() if isinstance(text, str)]
    for text in texts:
        if text.lstrip().startswith(("{", "[")):
            try:
                yield from _Texts(json.loads(text)).paths
                continue
            except (ValueError, RecursionError):
                pass
        yield from _header_paths(text, is_all=not names_files)


def _header_paths(text: str, *, is_all: bool) -> Iterator[str]:
    """The paths in all that some program takes for a header; without any, each word that names a protected place.

    Without `is_all`, the text is about files that were named beside it.
    """
    lines = text.splitlines()
    found = [matched["path"] for line in lines if (matched := _HEADER(line))]
    # A block of search and replace has its file in a line before it, or before the fence that it is in.
    starts = (at for at, line in enumerate(lines) if line.startswith("<<<<<<<"))
    found += [line.strip(" \t`*:#") for at in starts for line in lines[max(at - 2, 0) : at]]
    for rest in found:
        words = [_unquote(quoted) for quoted in _QUOTED.findall(rest)]
        words += [rest.partition("\t")[0].strip('"'), *(rest.split() if " " in rest else ())]
        for word in words:
            # Programs take as many folders off the front as they are told to.
            parts = word.split("/")
            yield from ("/".join(parts[at:]) for at in range(min(len(parts), 4)))
    if not found and is_all:
        yield from (word for word in _TOKEN.findall(text) if protected_name_in(word) is not None)


def _unquote(text: str) -> str:
    """A name as git writes one with unusual characters: each byte of them by its number."""
    try:
        return text.encode("latin-1", "backslashreplace").decode("unicode_escape").encode("latin-1").decode("utf-8")
    except (UnicodeError, ValueError):
        return text


def _protected_name(path: str, base: str, access: FileAccess) -> str | None:
    if len(path) > _LONGEST:
        return "a path that long"
    if "\0" in path:
        return None  # which no system takes
    written = os.path.normpath(os.path.join(base, _expanded(path)))
    return access.protected_name(written, base) or access.protected_name(written, access.workspace)


def _real_paths(path: str, base: str) -> Iterator[str]:
    """The paths that a path leads to: some programs take `..` away before they follow links, and others after."""
    if len(path) > _LONGEST or "\0" in path:
        return
    full = os.path.join(base, _expanded(path))
    yield real_path(full)
    if ".." in path:
        yield real_path(os.path.normpath(full))


def _expanded(path: str) -> str:
    path = path.removeprefix("file://")
    return os.path.expanduser(path) if path.startswith("~") else path


def _refuse_protected(path: str, place: str) -> Decision:
    from metier.guard.files.file_access import protection_hint, protection_reason

    return refuse(
        reason=protection_reason(path, place),
        check=f"built in: protected place {shown(place, 200)}",
        code="protected-place",
        hint=protection_hint(place),
    )


def _refuse_hidden(path: str) -> Decision:
    """As if it were not there: only the record says why."""
    return refuse(
        reason=f"File {shown(path, 200)!r} was not found.",
        check="built in: hidden files",
        code="file-missing",
        hint=list_files(),
    )
