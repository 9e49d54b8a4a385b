"""The skills that copies were made from: whether they are gone, or only cannot be seen now.

A copy is removed only where its origin is proven to be gone. A folder that is not mounted, closed to this user, or not
among the places of a library says nothing about the skills in it.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from metier._paths import is_inside
from metier.hub.sync_record import SyncRecord
from metier.hub.target_folder import TargetFolder
from metier.library.places import copied_into
from metier.source import ArchiveSource, FolderSource

if TYPE_CHECKING:
    from metier.hub.sync_record import Copy
    from metier.library import Entry, SkillLookup


def origin_of(entry: Entry) -> tuple[str, str]:
    """The file that a copy of a skill is made from, and the folder or archive that it lies in; empty for memory."""
    source = entry.place.source
    if isinstance(source, FolderSource):
        root = os.path.realpath(source.root)
        return os.path.join(root, *entry.key.split("/")), root
    if isinstance(source, ArchiveSource):
        return entry.location, source.path
    return "", ""


class Origins:
    """The skills of a library as they would be if nothing had ever been synced."""

    def __init__(self, library: SkillLookup) -> None:
        self._library = library
        self._records: dict[str, SyncRecord] = {}
        self._copied: dict[str, frozenset[str]] = {}

    @cached_property
    def _names(self) -> dict[str, str]:
        """The names of all skills, also of those that a scope hides, by their files."""
        return {origin_of(entry)[0]: entry.name for entry in self._library.snapshot.entries if not entry.is_broken}

    @cached_property
    def _folders(self) -> set[str]:
        """The folders that the library reads."""
        sources = (place.source for place in self._library.places)
        return {os.path.realpath(source.root) for source in sources if isinstance(source, FolderSource)}

    def is_copy(self, entry: Entry) -> bool:
        """Whether a skill lies in a folder that says of it that sync wrote it."""
        folder, name = os.path.split(os.path.dirname(entry.location))
        if os.path.isabs(folder) and folder not in self._copied:
            self._copied[folder] = copied_into(folder)
        return name in self._copied.get(folder, ())

    def found(self, target: TargetFolder) -> tuple[dict[str, Entry], dict[str, Entry]]:
        """The skill of each name that is to be written to a folder; and one that is broken where no other is usable.

        A copy lies where the library looks for skills too, and may well outrank what it was made from: it counts where
        there is nothing else of its name. One that was written to the target itself, or whose origin is gone, does not.
        """
        usable: dict[str, Entry] = {}
        copies: dict[str, Entry] = {}
        broken: dict[str, Entry] = {}
        for entry in self._library.entries(all=True):
            if entry.is_broken or entry.is_skipped:
                broken.setdefault(entry.name, entry)
            elif not self.is_copy(entry):
                usable.setdefault(entry.name, entry)
            elif self._is_source(entry, target):
                copies.setdefault(entry.name, entry)
        usable = {**copies, **usable}
        return usable, {name: entry for name, entry in broken.items() if name not in usable}

    def is_hidden(self, name: str, copy: Copy) -> bool:
        """Whether the origin of a copy is there for others, and only the library's caller does not see it."""
        return bool(copy.origin) and self._names.get(copy.origin) == name

    def _is_source(self, entry: Entry, target: TargetFolder) -> bool:
        folder, name = os.path.split(os.path.dirname(os.path.realpath(entry.location)))
        record = target.record if folder == target.path else self._records.setdefault(folder, SyncRecord(folder))
        copy = record.copies.get(name)
        if copy is None:
            return True
        if folder != target.path and self.against_removal(name, copy):
            return True
        # What a person changed is no copy any more.
        return TargetFolder(folder).digest(name) not in copy.written

    def against_removal(self, name: str, copy: Copy) -> str:
        """The reason why the origin of a copy cannot be called gone; empty if it is gone."""
        if not copy.origin:
            return "It is not in the library now, and nothing says where it came from."
        if self._names.get(copy.origin, name) != name:
            return ""  # it has another name now
        if copy.origin.startswith(f"{copy.root}!/"):
            return self._against_removal_by_archive(copy)
        try:
            os.lstat(copy.origin)
        except (FileNotFoundError, NotADirectoryError):
            if copy.root not in self._folders:
                # Its folder may have another name there.
                return f"{copy.root} is not read by this library now."
            reason = f"{copy.root}, or what a link in it leads to, is empty, or not mounted or readable now."
            return "" if _is_listed(copy) else reason
        except OSError as error:
            return f"{copy.origin} cannot be looked at now: {error.strerror}."
        return f"It comes from {copy.origin}, which is not among the skills of this library now."

    def _against_removal_by_archive(self, copy: Copy) -> str:
        for place in self._library.places:
            if isinstance(place.source, ArchiveSource) and place.source.path == copy.root:
                rows = self._library.snapshot.rows[self._library.places.index(place)]
                if rows.findings or copy.origin in self._names:
                    break
                return ""
        return f"{copy.root} is not read by this library now."


def _is_listed(copy: Copy) -> bool:
    """Whether the folder that held the origin can be listed and is not empty, as one is that is not mounted."""
    folder = os.path.dirname(copy.origin)
    if folder != copy.root and not os.path.islink(folder):
        folder = os.path.dirname(folder)
    while is_inside(folder, copy.root):
        try:
            return bool(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            if os.path.islink(folder):
                return False  # what it leads to may be back later
            folder = os.path.dirname(folder)
        except OSError:
            return False
    return False
