"""Where skills come from: folders, Python packages, files in memory, archives.

A source finds skills and hands out their bytes; it decides nothing about them. This room imports `skill` only.
"""

from metier.source.archive import ARCHIVE_SUFFIXES, ArchiveSource
from metier.source.folder import FolderSource
from metier.source.memory import MemorySource
from metier.source.package import entry_point_sources, package_source
from metier.source.source import Finding, Scan, Source

__all__ = [
    "ARCHIVE_SUFFIXES",
    "ArchiveSource",
    "Finding",
    "FolderSource",
    "MemorySource",
    "Scan",
    "Source",
    "entry_point_sources",
    "package_source",
]
