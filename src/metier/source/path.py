"""The source for a path that somebody names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metier.source.folder import FolderSource
from metier.source.source import ARCHIVE_SUFFIXES, absolute

if TYPE_CHECKING:
    from pathlib import Path

    from metier.source.source import Source


def expanded(path: Path | str) -> str:
    """A path with `~` for the home folder, unless something here is really called so."""
    absolute(path)
    text = os.fspath(path)
    return text if os.path.lexists(text) else os.path.expanduser(text)


def source_of(
    path: Path | str, *, name: str | None = None, whole_root: bool = True, skill_name: str | None = None
) -> Source:
    """The source for a path: an archive by its suffix, else a folder, there or not.

    `skill_name` replaces the name of the one skill in it.
    """
    text = expanded(path)
    if text.lower().endswith(ARCHIVE_SUFFIXES) and not os.path.isdir(text):
        from metier.source.archive import ArchiveSource

        return ArchiveSource(text, name=name, skill_name=skill_name)
    return FolderSource(text, name=name, whole_root=whole_root, skill_name=skill_name)
