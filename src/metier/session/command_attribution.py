"""Attribution of shell commands to skills: a command that names files of a skill is a run of its scripts.

What a command does cannot be told from its text alone. So a skill whose scripts may not run is also left out of what
commands see, where there is a sandbox, and so are the folders that skills were loaded from, whose files may not be
those that were approved; the text decides where there is none, and who is told why.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metier._lazy import pattern
from metier._paths import is_inside, real_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.session.active_skills import ActiveSkill

_QUOTING = pattern(r"[\"'\\]")
_BETWEEN = pattern(r"[\s;|&()<>{}=,:`]+")
_MOST_WORDS = 2_000
_MOST_FOLDERS = 16


def folders_of(one: ActiveSkill, mount: str) -> tuple[str, ...]:
    """The folders of a skill: its verified copy, its place in the shell, and the one it was loaded from."""
    return (one.root, f"{mount}/{one.name}", *_loaded_from(one))


class NamedPaths:
    """The paths that a command names, or works in, as far as its text tells."""

    def __init__(self, argv: Sequence[str], folder: str) -> None:
        self._text = _QUOTING.sub("", " ".join(argv)).replace("${HOME}", "~").replace("$HOME", "~")
        self._words = tuple(dict.fromkeys(word for word in _BETWEEN.split(self._text) if word))[:_MOST_WORDS]
        self._paths = tuple(dict.fromkeys(_paths(self._words, folder)))

    def attributed(self, active: Sequence[ActiveSkill], mount: str) -> tuple[ActiveSkill, ...]:
        """Return the active skills that have scripts and whose files the command names."""
        with_scripts = (one for one in active if one.listing.scripts())
        return tuple(one for one in with_scripts if self._names(folders_of(one, mount)) or self._names_script(one))

    def loaded_from(self, active: Sequence[ActiveSkill], workspace: str) -> tuple[ActiveSkill, ...]:
        """The active skills that it names by the folder they were loaded from, unless it works in that anyway."""
        workspace = os.path.realpath(workspace)
        return tuple(
            one for one in active if self._names(folders := _loaded_from(one)) and not is_inside(workspace, folders[-1])
        )

    def _names(self, folders: Sequence[str]) -> bool:
        return any(root in self._text or any(is_inside(path, root) for path in self._paths) for root in folders)

    def _names_script(self, one: ActiveSkill) -> bool:
        # Behind a `cd` to wherever it was, a script goes by its path in the skill.
        scripts = tuple(f"/{file.path}" for file in one.listing.scripts() if "/" in file.path)
        relative = (word for word in self._words if not word.startswith(("/", "~")))
        return any(f"/{word.removeprefix('./')}".endswith(scripts) for word in relative)


def _loaded_from(one: ActiveSkill) -> tuple[str, ...]:
    """The folder that a skill was loaded from, as it is named and as it really is; none for one that is in memory."""
    return (one.folder, os.path.realpath(one.folder)) if os.path.isabs(one.folder) else ()


def _paths(words: Sequence[str], folder: str) -> Iterator[str]:
    """The paths of words, from the folder that a command begins in and from those that it may go to."""
    yield real_path(folder)
    folders = [folder]
    for word in words:
        if "\0" in word:
            continue
        for within in tuple(folders):
            full = os.path.normpath(os.path.join(within, os.path.expanduser(word)))
            if "/" in word:
                yield full
                yield real_path(full)
            if len(folders) < _MOST_FOLDERS and full not in folders and os.path.isdir(full):
                folders.append(full)
                yield real_path(full)
