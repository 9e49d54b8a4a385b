"""Skills that come inside Python packages: package data, announced by an entry point.

A package offers skills with one line in its `pyproject.toml`:

    [project.entry-points."metier.skills"]
    acme-tools = "acme_tools:skills"

which names the folder `skills` inside the package `acme_tools`. Nothing of the package is imported or executed.
"""

from __future__ import annotations

import importlib.machinery
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from metier.errors import ArchiveRefused, SourceUnavailable
from metier.skill import Diagnostic
from metier.source._unpack import unpack
from metier.source.archive import packages_of
from metier.source.folder import FolderSource
from metier.source.memory import MemorySource
from metier.source.source import Finding

if TYPE_CHECKING:
    from metier.source.source import Source

ENTRY_POINT_GROUP = "metier.skills"

_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def package_source(package: str, folder: str = "skills", *, name: str | None = None) -> Source:
    """The skills in a folder of an installed Python package.

    >>> package_source("metier", "bundled").name
    'metier'
    """
    if not _MODULE.fullmatch(package) or ".." in folder.split("/") or folder.startswith("/"):
        raise SourceUnavailable(
            f"{package}:{folder} does not name a folder of a package.", hint='Write "package:folder".'
        )
    label = name or package
    for root in _locations(package):
        path = os.path.join(root, *folder.split("/"))
        if os.path.isdir(path):
            return FolderSource(path, name=label, whole_root=False)
        zipped = _zipped_source(path, label)
        if zipped is not None:
            return zipped
    raise SourceUnavailable(
        f"The package {package!r} has no folder {folder!r}.",
        hint="Check the entry point of the package.",
        package=package,
    )


def entry_point_sources() -> tuple[list[Source], list[Finding]]:
    """The sources of all installed packages that announce skills, sorted by name."""
    # Costs tens of milliseconds to import, and most calls have no use for it.
    from importlib.metadata import entry_points

    sources: list[Source] = []
    findings: list[Finding] = []
    points = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: (point.name, point.value))
    for name, value in dict.fromkeys((point.name, point.value) for point in points):
        package, _, folder = value.partition(":")
        try:
            sources.append(package_source(package.strip(), folder.strip() or "skills", name=name))
        except SourceUnavailable as error:
            findings.append(
                Finding(f"entry point {name}", Diagnostic("folder-unreadable", None, (value, error.message)))
            )
    return sources, findings


def _locations(package: str) -> list[str]:
    """The folders of a package, found by the import system's path finder without importing anything."""
    path: list[str] | None = None
    for end in [*(match.start() for match in re.finditer(r"\.", package)), len(package)]:
        name = package[:end]
        loaded = sys.modules.get(name)
        spec = getattr(loaded, "__spec__", None) or importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.submodule_search_locations is None:
            return []
        path = list(spec.submodule_search_locations)
    return path or []


def _zipped_source(path: str, name: str) -> MemorySource | None:
    """Skills of a package that is imported from a zip file."""
    archive = path
    while archive and not os.path.isfile(archive):
        parent = os.path.dirname(archive)
        if parent == archive:
            return None
        archive = parent
    prefix = path[len(archive) :].strip(os.sep).replace(os.sep, "/") + "/"
    try:
        members = unpack(Path(archive))
        below = {path.removeprefix(prefix): member for path, member in members.items() if path.startswith(prefix)}
        packages = packages_of(below, name)
    except ArchiveRefused:
        return None
    return MemorySource({key.rpartition("/")[0] or name: package for key, package in packages.items()}, name=name)
