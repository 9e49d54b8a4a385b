"""Sources of skills: folders, Python packages, files in memory, archives.

A source finds skills and hands out their bytes; it decides nothing about them. This room imports `skill` only.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from metier.source.archive import ArchiveSource as ArchiveSource
    from metier.source.distribution import installed_sources as installed_sources
    from metier.source.distribution import package_source as package_source
    from metier.source.folder import FolderSource as FolderSource
    from metier.source.memory import MemorySource as MemorySource
    from metier.source.source import ARCHIVE_SUFFIXES as ARCHIVE_SUFFIXES
    from metier.source.source import FoundSkills as FoundSkills
    from metier.source.source import Source as Source
    from metier.source.source import SourceDiagnostic as SourceDiagnostic
    from metier.source.source import expanded as expanded
    from metier.source.source import open_source as open_source

__getattr__, __dir__, __all__ = lazy_names(__name__)
