"""Where skills come from: folders, Python packages, files in memory, archives.

A source finds skills and hands out their bytes; it decides nothing about them. This room imports `skill` only.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # what type checkers take for true, without importing `typing` for it
if TYPE_CHECKING:
    from metier.source.archive import ArchiveSource
    from metier.source.folder import FolderSource
    from metier.source.memory import MemorySource
    from metier.source.package import entry_point_sources, package_source
    from metier.source.path import expanded, source_of
    from metier.source.source import ARCHIVE_SUFFIXES, Finding, Scan, Source

_NAMES = {
    "ARCHIVE_SUFFIXES": "metier.source.source",
    "ArchiveSource": "metier.source.archive",
    "Finding": "metier.source.source",
    "FolderSource": "metier.source.folder",
    "MemorySource": "metier.source.memory",
    "Scan": "metier.source.source",
    "Source": "metier.source.source",
    "entry_point_sources": "metier.source.package",
    "expanded": "metier.source.path",
    "package_source": "metier.source.package",
    "source_of": "metier.source.path",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)

__all__ = [
    "ARCHIVE_SUFFIXES",
    "ArchiveSource",
    "Finding",
    "FolderSource",
    "MemorySource",
    "Scan",
    "Source",
    "entry_point_sources",
    "expanded",
    "package_source",
    "source_of",
]
